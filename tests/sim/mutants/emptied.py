"""Bugs of emptied directories: a voter that has lost its votes and records takes part too early (ADR 022)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pykraft.core.messages import BeginQuorumEpochRequest, FetchResponse
from pykraft.core.on import fetch_response, following, proof, send_requests
from pykraft.core.on.begin_epoch import on_begin_quorum_epoch_request
from pykraft.core.on.dispatch import REQUEST_HANDLERS
from pykraft.core.proof import NO_EPOCH, PROVEN
from pykraft.core.replica import Replica
from pykraft.host import directory_proof
from pykraft.log.fs import Fs, make_directory
from pykraft.log.small_files.proof_file import ProofFile
from pykraft.types import Instant
from tests.sim.mutants.mutant import Mutant
from tests.sim.mutants.patch import Patch

SCENARIO = "emptied"


def emptied_voter_takes_part_at_once(patch: Patch) -> None:
    """A node with an emptied directory votes, campaigns and counts from its start."""
    patch.setattr(directory_proof, "look_up_proof", lambda *_args, **_options: PROVEN)


def unproven_fetch_bears_the_id(patch: Patch) -> None:
    """An unproven replica fetches with its id, so its leader counts it for the high watermark."""
    patch.setattr(send_requests, "_identity", lambda replica: replica.local.key)


def unproven_replica_confirms_its_leader(patch: Patch) -> None:
    """An unproven replica answers BeginQuorumEpoch like any voter, so a linearizable read counts it."""

    def confirm(replica: Replica, event: Any, message: Any, now: Instant) -> None:
        survey, replica.survey = replica.survey, None
        on_begin_quorum_epoch_request(replica, event, message, now)
        replica.survey = survey

    patch.setitem(REQUEST_HANDLERS, BeginQuorumEpochRequest, confirm)


def any_fetched_record_proves_the_directory(patch: Patch) -> None:
    """An unproven replica takes part as soon as it has fetched anything, whichever voters it heard."""

    def prove(replica: Replica, answer: FetchResponse, now: Instant) -> None:
        del answer
        if replica.survey is not None and replica.log.end_offset > 0:
            vars(proof)["_prove"](replica, replica.epoch, now, "something was fetched")

    patch.setattr(fetch_response, "prove_if_caught_up", prove)


def first_voter_of_a_fetched_log_is_proven(patch: Patch) -> None:
    """An unproven replica takes part when the log that it fetches names no other voter yet, however that goes on."""
    settle = proof.settle_proof

    def settle_alone(replica: Replica, now: Instant, **named: bool) -> None:
        settle(replica, now, **named)
        if replica.survey is not None and replica.is_only_voter:
            vars(proof)["_prove"](replica, replica.epoch, now, "the logs of all voters are empty")

    patch.everywhere(settle, settle_alone)


def a_proof_allows_every_vote(patch: Patch) -> None:
    """A voter forgets at a restart that it may have voted before its directory was emptied: it may vote again."""
    begin = Replica.__init__

    def begin_anew(replica: Replica, *args: Any, **options: Any) -> None:
        begin(replica, *args, **options)
        replica.votes_above = NO_EPOCH

    patch.setattr(Replica, "__init__", begin_anew)


def unproven_directory_is_not_noted(patch: Patch) -> None:
    """No file says that a directory is unproven: after a restart its meta.properties makes it look proven."""
    patch.setattr(ProofFile, "write", lambda file, found: None)


def emptied_leader_closes_its_voters_connections(patch: Patch) -> None:
    """A leader whose disk was emptied closes the connections of voters that still name it, so it hears from none."""
    patch.setattr(following, "_is_named_wrongly", lambda replica, epoch, leader_id: False)


def leader_is_asked_at_its_old_endpoint(patch: Patch) -> None:
    """An unproven replica asks its leader at the endpoint of the voter set, though it fetches from it elsewhere."""
    patch.setattr(send_requests, "where_is", Replica.voter_peer)


def directory_of_a_killed_start_is_not_synced(patch: Patch) -> None:
    """A start takes an existing directory for durable, although the start that created it was killed before syncing."""

    def make(fs: Fs, path: Path) -> None:
        if not fs.exists(path):
            make_directory(fs, path)

    patch.everywhere(make_directory, make)


MUTANTS = (
    Mutant(
        plant=directory_of_a_killed_start_is_not_synced,
        source="ours; ALICE (OSDI 2014)",
        scenario="killed_starts",
    ),
    Mutant(plant=emptied_voter_takes_part_at_once, source="KAFKA-14077; ours, until ADR 022", scenario=SCENARIO),
    Mutant(plant=unproven_fetch_bears_the_id, source="Raft dissertation §11.2", scenario=SCENARIO),
    Mutant(plant=unproven_replica_confirms_its_leader, source="Raft dissertation §6.4", scenario=SCENARIO),
    Mutant(
        plant=any_fetched_record_proves_the_directory,
        source="KAFKA-14077, with catching up as the only condition",
        scenario=SCENARIO,
    ),
    Mutant(
        plant=first_voter_of_a_fetched_log_is_proven,
        source="ours, until a campaign found it: a former only voter that was emptied counted with four batches",
        scenario="all_before_forgers",
    ),
    Mutant(plant=a_proof_allows_every_vote, source="ADR 022", scenario=SCENARIO),
    Mutant(plant=unproven_directory_is_not_noted, source="ours, almost", scenario=SCENARIO),
    Mutant(plant=emptied_leader_closes_its_voters_connections, source="ours, until a test found it", scenario=SCENARIO),
    Mutant(plant=leader_is_asked_at_its_old_endpoint, source="ours, until a world of all noticed it", scenario="moved"),
)
