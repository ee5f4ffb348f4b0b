"""A vote that is not on disk is found, and one that is granted twice."""

from __future__ import annotations

import pytest

from pykraft.sim.facts.platter import DurableElection
from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.elections.vote import OneVote
from pykraft.sim.machine.spoken import Spoken
from tests.sim.invariants.fakes import node, world


def vote(epoch: int, candidate_id: int | None = None) -> Spoken:
    return Spoken(epoch=epoch, candidate_id=candidate_id)


def test_a_vote_on_disk_may_be_spoken_and_repeated() -> None:
    where = world(epoch=1, voted_id=2)
    made = OneVote(where)
    for _ in range(2):
        made.before_send(node(), vote(1, 2))
    where.election = DurableElection(epoch=2, voted_id=3)
    made.before_send(node(), vote(2, 3))
    made.before_send(node(2), vote(2, 3))
    made.before_send(node(), vote(2))


@pytest.mark.parametrize("voted_id", [None, 3])
def test_a_vote_that_is_not_on_disk_is_found(voted_id: int | None) -> None:
    with pytest.raises(ViolationError, match=f"its disk knows a vote for {voted_id}"):
        OneVote(world(epoch=1, voted_id=voted_id)).before_send(node(), vote(1, 2))


def test_a_second_vote_in_an_epoch_is_found_even_if_the_disk_forgot_the_first() -> None:
    where = world(epoch=1, voted_id=2)
    made = OneVote(where)
    made.before_send(node(), vote(1, 2))
    where.election = DurableElection(epoch=1, voted_id=3)
    with pytest.raises(ViolationError, match="voted for 2 before"):
        made.before_send(node(), vote(1, 3))


def test_a_node_with_an_empty_disk_may_vote_anew_and_only_that_one() -> None:
    where = world(epoch=1, voted_id=2)
    made = OneVote(where)
    for node_id in (1, 3):
        made.before_send(node(node_id), vote(1, 2))
    made.wiped(node())
    where.election = DurableElection(epoch=1, voted_id=4)
    made.before_send(node(), vote(1, 4))
    with pytest.raises(ViolationError, match="voted for 2 before"):
        made.before_send(node(3), vote(1, 4))
