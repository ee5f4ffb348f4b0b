"""A vote that is not on disk is found, and one that is given to two."""

from __future__ import annotations

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.vote import OneVote
from pykraft.sim.spoken import Spoken
from tests.sim.invariants.fakes import node, world


def test_a_vote_on_disk_may_be_spoken_and_repeated() -> None:
    invariant = OneVote()
    for _ in range(2):
        invariant.before_send(world(epoch=1, voted_id=2), node(), Spoken(epoch=1, candidate_id=2))
    invariant.before_send(world(epoch=1, voted_id=3), node(2), Spoken(epoch=1, candidate_id=3))
    invariant.before_send(world(epoch=2, voted_id=3), node(), Spoken(epoch=2, candidate_id=3))
    invariant.before_send(world(epoch=2), node(), Spoken(epoch=2))


@pytest.mark.parametrize("voted_id", [None, 3])
def test_a_vote_that_is_not_on_disk_is_found(voted_id: int | None) -> None:
    with pytest.raises(ViolationError, match=f"its disk knows a vote for {voted_id}"):
        OneVote().before_send(world(epoch=1, voted_id=voted_id), node(), Spoken(epoch=1, candidate_id=2))


def test_a_second_vote_in_an_epoch_is_found_even_if_the_disk_forgot_the_first() -> None:
    invariant = OneVote()
    invariant.before_send(world(epoch=1, voted_id=2), node(), Spoken(epoch=1, candidate_id=2))
    with pytest.raises(ViolationError, match="voted for 2 before"):
        invariant.before_send(world(epoch=1, voted_id=3), node(), Spoken(epoch=1, candidate_id=3))
