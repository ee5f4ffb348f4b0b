"""Bugs of emptied directories: a voter that has forgotten what it promised, and takes part too early (ADR 022)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pykraft.core.messages import BeginQuorumEpochRequest, FetchResponse
from pykraft.core.on import asking, fetch_response, following, proof
from pykraft.core.on.begin_epoch import on_begin_quorum_epoch_request
from pykraft.core.on.dispatch import REQUEST_HANDLERS
from pykraft.core.proof import PROVEN
from pykraft.core.replica import Replica
from pykraft.host import proving
from pykraft.log.fs import Fs, make_directory
from pykraft.log.proof_file import ProofFile
from pykraft.types import Instant
from tests.sim.mutants.mutant import Mutant
from tests.sim.mutants.patch import Patch

SCENARIO = "emptied"


def emptied_voter_takes_part_at_once(patch: Patch) -> None:
    """An empty directory is as good as any: its node votes, campaigns and counts from the start."""
    patch.setattr(proving, "look_up_proof", lambda *_args, **_options: PROVEN)


def unproven_fetch_bears_the_id(patch: Patch) -> None:
    """An unproven replica fetches with its id, so its leader counts it for the high watermark."""
    patch.setattr(asking, "_identity", lambda replica: replica.local.key)


def unproven_replica_confirms_its_leader(patch: Patch) -> None:
    """An unproven replica answers BeginQuorumEpoch like any voter, so a linearizable read counts it."""

    def confirm(replica: Replica, event: Any, message: Any, now: Instant) -> None:
        survey, replica.survey = replica.survey, None
        on_begin_quorum_epoch_request(replica, event, message, now)
        replica.survey = survey

    patch.setitem(REQUEST_HANDLERS, BeginQuorumEpochRequest, confirm)


def something_fetched_is_a_proof(patch: Patch) -> None:
    """An unproven replica takes part as soon as it has fetched anything, whoever was heard."""

    def prove(replica: Replica, answer: FetchResponse, now: Instant) -> None:
        del answer
        if replica.survey is not None and replica.log.end_offset > 0:
            vars(proof)["_prove"](replica, replica.epoch, now)

    patch.setattr(fetch_response, "prove_if_caught_up", prove)


def unproven_directory_is_not_noted(patch: Patch) -> None:
    """Nothing durable says that a directory is unproven: after a restart its meta.properties speaks for it."""
    patch.setattr(ProofFile, "write", lambda file, found: None)


def emptied_leader_blames_who_names_it(patch: Patch) -> None:
    """A leader whose disk was emptied closes the connection of each voter that still names it, and hears nothing."""
    patch.setattr(following, "_may_have_forgotten", lambda replica, epoch, leader_id: False)


def directory_of_a_killed_start_is_not_synced(patch: Patch) -> None:
    """A directory that is there is taken for durable, though the start that created it was killed before its sync."""

    def make(fs: Fs, path: Path) -> None:
        if not fs.exists(path):
            make_directory(fs, path)

    patch.everywhere(make_directory, make)


MUTANTS = (
    Mutant(
        plant=directory_of_a_killed_start_is_not_synced,
        source="pykraft itself; ALICE (OSDI 2014)",
        scenario="killed_starts",
    ),
    Mutant(plant=emptied_voter_takes_part_at_once, source="KAFKA-14077; pykraft until ADR 022", scenario=SCENARIO),
    Mutant(plant=unproven_fetch_bears_the_id, source="Raft dissertation §11.2", scenario=SCENARIO),
    Mutant(plant=unproven_replica_confirms_its_leader, source="Raft dissertation §6.4", scenario=SCENARIO),
    Mutant(plant=something_fetched_is_a_proof, source="KAFKA-14077, caught up first", scenario=SCENARIO),
    Mutant(plant=unproven_directory_is_not_noted, source="ours, nearly", scenario=SCENARIO),
    Mutant(plant=emptied_leader_blames_who_names_it, source="pykraft until its tests met it", scenario=SCENARIO),
)
