"""Bugs of emptied, restored and doubled directories: a node lost what it acknowledged, or acknowledges twice."""

from pathlib import Path
from typing import Any

from pykraft.core.effects import Report
from pykraft.core.leader.progress import ReplicaProgress
from pykraft.core.messages import BeginQuorumEpochRequest, FetchResponse
from pykraft.core.on import fetch_request, fetch_response, following, proof, send_requests
from pykraft.core.on.quorum_epoch import on_begin_quorum_epoch_request
from pykraft.core.proof import NO_EPOCH, PROVEN
from pykraft.core.raft import REQUEST_HANDLERS
from pykraft.core.replica import Replica
from pykraft.host import open as node_open
from pykraft.log.fs import Fs, make_directory
from pykraft.log.small_files.proof_file import ProofFile
from pykraft.types import Instant, Offset
from tests.sim.mutants.patch import Patch, bug


@bug("KAFKA-14077; ours, until ADR 022", "emptied")
def emptied_voter_takes_part_at_once(patch: Patch) -> None:
    """A node with an emptied directory votes, campaigns and counts from its start."""
    patch.setattr(node_open, "look_up_proof", lambda *_args, **_options: PROVEN)


@bug("Raft dissertation §11.2", "emptied")
def unproven_fetch_bears_the_id(patch: Patch) -> None:
    """An unproven replica fetches with its id, so its leader counts it for the high watermark."""
    patch.setattr(send_requests, "_identity", lambda replica: replica.local.key)


@bug("Raft dissertation §6.4", "emptied")
def unproven_replica_confirms_its_leader(patch: Patch) -> None:
    """An unproven replica answers BeginQuorumEpoch like any voter, so a linearizable read counts it."""

    def confirm(replica: Replica, event: Any, message: Any, now: Instant) -> None:
        survey, replica.survey = replica.survey, None
        on_begin_quorum_epoch_request(replica, event, message, now)
        replica.survey = survey

    patch.setitem(REQUEST_HANDLERS, BeginQuorumEpochRequest, confirm)


@bug("KAFKA-14077, with catching up as the only condition", "emptied")
def any_fetched_record_proves_the_directory(patch: Patch) -> None:
    """An unproven replica takes part as soon as it has fetched anything, whichever voters it heard from."""

    def prove(replica: Replica, answer: FetchResponse, now: Instant) -> None:
        del answer
        if replica.survey is not None and replica.log.end_offset > 0:
            vars(proof)["_prove"](replica, replica.epoch, now, "something was fetched")

    patch.setattr(fetch_response, "prove_if_caught_up", prove)


@bug(
    "ours, until a campaign found it: a former only voter that was emptied counted with four batches",
    "all_before_forgers",
)
def first_voter_of_a_fetched_log_is_proven(patch: Patch) -> None:
    """An unproven replica takes part when the log that it fetches names no other voter yet, however that goes on."""
    settle = proof.settle_proof

    def settle_alone(replica: Replica, now: Instant, **named: bool) -> None:
        settle(replica, now, **named)
        if replica.survey is not None and replica.is_only_voter:
            vars(proof)["_prove"](replica, replica.epoch, now, "the logs of all voters are empty")

    patch.everywhere(settle, settle_alone)


@bug("ADR 022", "emptied")
def a_proof_allows_every_vote(patch: Patch) -> None:
    """A voter forgets at a restart that it may have voted before its directory was emptied: it may vote again."""
    begin = Replica.__init__

    def begin_anew(replica: Replica, *args: Any, **options: Any) -> None:
        begin(replica, *args, **options)
        replica.votes_above = NO_EPOCH

    patch.setattr(Replica, "__init__", begin_anew)


@bug("ours, almost", "emptied")
def unproven_directory_is_not_noted(patch: Patch) -> None:
    """No file says that a directory is unproven: after a restart its meta.properties makes it look proven."""
    patch.setattr(ProofFile, "write", lambda file, found: None)


@bug("ours, until a test found it", "emptied")
def emptied_leader_closes_its_voters_connections(patch: Patch) -> None:
    """A leader whose disk was emptied closes the connections of voters that still name it, so it hears from none."""
    patch.setattr(following, "_is_named_wrongly", lambda replica, epoch, leader_id: False)


@bug("ours, until a world of all noticed it", "moved")
def leader_is_asked_at_its_old_endpoint(patch: Patch) -> None:
    """An unproven replica asks its leader at the endpoint of the voter set, though it fetches from it elsewhere."""
    patch.setattr(send_requests, "where_is", Replica.voter_peer)


@bug("ours; ALICE (OSDI 2014)", "killed_starts")
def directory_of_a_killed_start_is_not_synced(patch: Patch) -> None:
    """A start takes an existing directory for durable, although the start that created it was killed before syncing."""

    def make(fs: Fs, path: Path) -> None:
        if not fs.exists(path):
            make_directory(fs, path)

    patch.everywhere(make_directory, make)


@bug("ours until ADR 128: 3,219 records, no line", "backups")
def forgotten_acknowledgements_are_served_in_silence(patch: Patch) -> None:
    """A leader sends a voter once more what it had acknowledged, and says nothing."""
    patch.setattr(fetch_request, "_watch_voter", lambda replica, leader, voter, fetch_offset: None)


@bug("ours until ADR 128")
def logs_are_cut_in_silence(patch: Patch) -> None:
    """A follower truncates its log where the leader says, and reports nothing."""
    truncate = fetch_response._truncate

    def in_silence(replica: Replica, point: Offset) -> None:
        truncate(replica, point)
        effects = replica.outbox._effects
        effects[:] = [each for each in effects if not isinstance(each, Report)]

    patch.setattr(fetch_response, "_truncate", in_silence)


@bug("ours until ADR 130: 10,000 acknowledged records were lost", "twins")
def any_directory_is_the_voter(patch: Patch) -> None:
    """Whoever fetches with a static voter's id acknowledges for it, from whatever directory."""
    patch.setattr(ReplicaProgress, "may_be", lambda progress, key: progress.key.matches(key))


@bug("ours until ADR 130; Kafka at kraft.version 0", "twins")
def twins_are_served_in_silence(patch: Patch) -> None:
    """A second process with a voter's id counts for nothing, and nobody says that there is one."""
    patch.setattr(fetch_request, "_watch_identity", lambda replica, key: None)
