"""A vote or a pre-vote for a shorter log is found."""

from __future__ import annotations

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.elections.up_to_date import CandidateIsUpToDate
from pykraft.sim.machine.spoken import LogEnd, Spoken, VoteAsked
from tests.sim.invariants.fakes import BEFORE, entry, node, view, world


def granted(candidate: tuple[int, int], voter: tuple[int, int] | None, *, is_pre_vote: bool = False) -> Spoken:
    asked = VoteAsked(
        version=2,
        epoch=5,
        candidate_id=2,
        is_pre_vote=is_pre_vote,
        candidate_log=LogEnd(epoch=candidate[0], offset=candidate[1]),
        voter_log=None if voter is None else LogEnd(epoch=voter[0], offset=voter[1]),
    )
    return Spoken(epoch=5, granted=asked)


@pytest.mark.parametrize(("candidate", "voter"), [((1, 5), (1, 5)), ((2, 1), (1, 9)), ((1, 6), (1, 5))])
def test_logs_that_are_as_long_are_accepted(candidate: tuple[int, int], voter: tuple[int, int]) -> None:
    made = CandidateIsUpToDate(world())
    made.before_send(node(), granted(candidate, voter))
    made.before_send(node(), granted(candidate, None))
    made.before_send(node(), Spoken(epoch=5))


@pytest.mark.parametrize(("candidate", "voter"), [((1, 4), (1, 5)), ((1, 9), (2, 1))])
@pytest.mark.parametrize("is_pre_vote", [True, False])
def test_a_shorter_log_is_found(candidate: tuple[int, int], voter: tuple[int, int], is_pre_vote: bool) -> None:
    with pytest.raises(ViolationError, match=f"log ends at offset {candidate[1]} of epoch {candidate[0]}"):
        CandidateIsUpToDate(world()).before_send(node(), granted(candidate, voter, is_pre_vote=is_pre_vote))


def test_a_vote_may_be_repeated_when_the_log_has_grown_meanwhile() -> None:
    """The voter had followed another one of that epoch, and lost it, when its candidate asked again."""
    grown = granted((4, 7), (5, 8))
    made = CandidateIsUpToDate(world())
    with pytest.raises(ViolationError):
        made.before_send(node(), grown)
    made.changed(node(), BEFORE, view(epoch=5, voted_id=2))
    made.before_send(node(), grown)
    with pytest.raises(ViolationError):
        made.before_send(node(), granted((3, 7), (4, 8)))
    made.wiped(node())
    with pytest.raises(ViolationError):
        made.before_send(node(), grown)


def test_a_vote_for_a_shorter_log_is_none_that_may_be_repeated() -> None:
    seen = world()
    seen.held[1] = [entry(0, epoch=5)]
    made = CandidateIsUpToDate(seen)
    made.changed(node(), BEFORE, view(epoch=5, voted_id=2))
    with pytest.raises(ViolationError):
        made.before_send(node(), granted((4, 7), (5, 8)))
