"""A damaged node that votes, campaigns or leads is found."""

from __future__ import annotations

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.disks.quarantine import DamagedTakesNoPart
from pykraft.sim.machine.spoken import LogEnd, Spoken, VoteAsked
from tests.sim.invariants.fakes import BEFORE, node, view, world


def granted(*, is_pre_vote: bool, is_damaged: bool) -> Spoken:
    asked = VoteAsked(
        version=2,
        epoch=5,
        candidate_id=2,
        is_pre_vote=is_pre_vote,
        candidate_log=LogEnd(epoch=1, offset=9),
        is_voter_damaged=is_damaged,
    )
    return Spoken(epoch=5, granted=asked)


def test_whole_nodes_and_quiet_damaged_ones_are_accepted() -> None:
    made = DamagedTakesNoPart(world())
    made.before_send(node(), granted(is_pre_vote=True, is_damaged=False))
    made.before_send(node(is_damaged=True), Spoken(epoch=5))
    made.changed(node(is_damaged=True), BEFORE, view("follower"))
    made.changed(node(), BEFORE, view("leader"))


@pytest.mark.parametrize("is_pre_vote", [True, False])
def test_a_grant_of_a_damaged_node_is_found(is_pre_vote: bool) -> None:
    with pytest.raises(ViolationError, match="vote in epoch 5, and part of its log is lost"):
        DamagedTakesNoPart(world()).before_send(node(), granted(is_pre_vote=is_pre_vote, is_damaged=True))


@pytest.mark.parametrize("role", ["leader", "candidate", "prospective", "prospective-voted"])
def test_a_damaged_node_that_campaigns_or_leads_is_found(role: str) -> None:
    with pytest.raises(ViolationError, match=f"is {role} in epoch 1, and part"):
        DamagedTakesNoPart(world()).changed(node(is_damaged=True), BEFORE, view(role))
