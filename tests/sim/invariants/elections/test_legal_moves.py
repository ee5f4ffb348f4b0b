"""Illegal transitions are found, and states that a node may never be in."""

from __future__ import annotations

import pytest

from pykraft.sim.facts.view import View
from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.elections.legal_moves import LegalMoves
from pykraft.types import VoterSet
from tests.sim.invariants.fakes import BEFORE, node, view, voters_of, world

LEADER = view("leader", 2, leader_id=1)


@pytest.mark.parametrize(
    ("was", "now"),
    [
        (BEFORE, view("candidate", 2)),
        (BEFORE, view("resigned", 2, leader_id=1)),
        (view("prospective", 1), view("candidate", 2)),
        (view("prospective-voted", 1), view("candidate", 2)),
        (view("candidate", 2), LEADER),
        (LEADER, view("leader", 2, leader_id=1, high_watermark=3)),
        (LEADER, view("resigned", 2, leader_id=1)),
        (view("candidate", 2), view("resigned", 2, leader_id=1)),
        (LEADER, view("follower", 3, leader_id=2)),
        (LEADER, BEFORE),
    ],
)
def test_legal_moves_are_accepted(was: View, now: View) -> None:
    LegalMoves(world()).changed(node(1), was, now)


@pytest.mark.parametrize(
    ("was", "now"),
    [
        (BEFORE, LEADER),
        (view("unattached", 1), view("candidate", 2)),
        (view("prospective", 1), view("candidate", 3)),
        (view("prospective", 2), LEADER),
        (view("candidate", 1), LEADER),
        (view("follower", 2, leader_id=2), view("resigned", 2, leader_id=1)),
        (view("follower", 2), view("follower", 1)),
        (view("follower", 2), view("follower", 2, leader_id=1)),
        (view("candidate", 2), view("leader", 2, leader_id=2)),
    ],
)
def test_other_moves_are_found(was: View, now: View) -> None:
    with pytest.raises(ViolationError, match=f"which was {was.role}"):
        LegalMoves(world()).changed(node(1), was, now)


def test_an_observer_only_observes() -> None:
    made = LegalMoves(world())
    made.changed(node(4), BEFORE, view("observer", 2, leader_id=1))
    with pytest.raises(ViolationError, match="and it is no voter"):
        made.changed(node(4), BEFORE, view("prospective", 2))


def test_who_was_a_voter_before_the_newest_set_leads_on_and_may_be_needed_once_more() -> None:
    made, others = LegalMoves(world()), VoterSet(voters_of(3).voters[1:])
    made.changed(node(1), LEADER, LEADER._replace(voters=others))
    made.changed(node(1), LEADER, view("resigned", LEADER.epoch, leader_id=1, voters=others))
    made.changed(node(1), view("candidate", LEADER.epoch), LEADER._replace(voters=others))
    with pytest.raises(ViolationError, match="and it is no voter"):
        made.changed(node(4), view("candidate", LEADER.epoch), LEADER._replace(leader_id=4, voters=others))


def test_an_only_voter_does_it_all_at_once_and_old_versions_need_not_ask() -> None:
    LegalMoves(world(1)).changed(node(1), BEFORE, view("leader", 2, leader_id=1, voters=voters_of(1)))
    where = world()
    where.members.has_pre_votes = False
    LegalMoves(where).changed(node(1), view("unattached", 1), view("candidate", 2))
