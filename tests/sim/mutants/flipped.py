"""Bugs that one flipped bit in a frame between nodes is enough for (ADR 148)."""

from __future__ import annotations

from typing import Any

from pykraft.core.on import epoch_raise, fetch_response, following
from pykraft.protocol import batch
from pykraft.rpc import fetched
from tests.sim.mutants.mutant import Mutant
from tests.sim.mutants.patch import Patch


def one_contradiction_gives_the_leader_up(patch: Patch) -> None:
    """A follower gives its leader up because of a single Fetch answer."""
    patch.setattr(fetch_response, "is_once", lambda *_, **__: False)


def the_first_name_of_a_leader_stays(patch: Patch) -> None:
    """Who was told of a leader that is none refuses the real one for the whole epoch."""
    patch.setattr(following, "_correct_leader", lambda *_: False)


def a_flipped_epoch_is_believed(patch: Patch) -> None:
    """The epoch of one answer is believed, however high it is."""
    patch.everywhere(epoch_raise.may_answer_raise, lambda *_: True)


def fetched_records_are_not_checked(patch: Patch) -> None:
    """A follower appends what it fetched without a look at the checksums."""
    patch.setattr(fetched, "scan", lambda records: batch.scan(records, verify_crc=False))


def _bug(plant: Any, source: str) -> Mutant:
    return Mutant(plant=plant, source=source, scenario="flipped")


MUTANTS = (
    _bug(one_contradiction_gives_the_leader_up, "ours until ADR 148; Kafka"),
    _bug(the_first_name_of_a_leader_stays, "ours until ADR 148; Kafka's QuorumState throws an exception"),
    _bug(a_flipped_epoch_is_believed, "Kafka; ours until ADR 129"),
    _bug(fetched_records_are_not_checked, "KAFKA-18723"),
)
