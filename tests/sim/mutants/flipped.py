"""Bugs that one flipped bit in a frame between nodes is enough for (ADR 148)."""

from __future__ import annotations

from typing import Any

from pykraft.core import enter_state
from pykraft.core.election import Tally
from pykraft.core.leader.progress import Progress
from pykraft.core.on import epoch_raise, fetch_response, following
from pykraft.core.state import Prospective
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


def a_campaign_ends_for_hearsay(patch: Patch) -> None:
    """Who asks for pre-votes follows any leader that a peer has heard of."""

    def correct(replica: Any, peer_id: int, epoch: Any, leader_id: Any, told: Any, now: Any) -> bool:
        is_news = leader_id not in (None, replica.leader_id, replica.local.id) and epoch == replica.epoch
        if not isinstance(replica.state, Prospective) or not is_news or peer_id not in (replica.leader_id, leader_id):
            return bool(real(replica, peer_id, epoch, leader_id, told, now))
        enter_state.to_follower(replica, epoch, leader_id, replica.listeners_of(leader_id, told), now)
        return True

    real = following._correct_leader
    patch.setattr(following, "_correct_leader", correct)


def a_flipped_epoch_is_believed(patch: Patch) -> None:
    """The epoch of one answer is believed, however high it is."""
    patch.everywhere(epoch_raise.may_answer_raise, lambda *_: True)


def fetched_records_are_not_checked(patch: Patch) -> None:
    """A follower appends what it fetched without a look at the checksums."""
    patch.setattr(fetched, "scan", lambda records: batch.scan(records, verify_crc=False))


def a_report_names_the_directory_for_good(patch: Patch) -> None:
    """An upgrade writes what was reported in a voter's name, and the voter with its id votes for itself regardless."""
    patch.setattr(Progress, "twin_of", lambda progress, key: None)
    begin = Tally.begin

    def by_id(_: Any, voters: Any, local: Any) -> Tally:
        return begin(voters, next((voter.key for voter in voters.voters if voter.key.id == local.id), local))

    patch.setattr(Tally, "begin", classmethod(by_id))


def _bug(plant: Any, source: str, scenario: str = "flipped") -> Mutant:
    return Mutant(plant=plant, source=source, scenario=scenario)


MUTANTS = (
    _bug(one_contradiction_gives_the_leader_up, "ours until ADR 148; Kafka"),
    _bug(the_first_name_of_a_leader_stays, "ours until ADR 148; Kafka's QuorumState throws an exception"),
    _bug(a_campaign_ends_for_hearsay, "ours in ADR 148", "all"),
    _bug(a_flipped_epoch_is_believed, "Kafka; ours until ADR 129"),
    _bug(a_report_names_the_directory_for_good, "ours; Kafka writes what it was told", "all"),
    _bug(fetched_records_are_not_checked, "KAFKA-18723"),
)
