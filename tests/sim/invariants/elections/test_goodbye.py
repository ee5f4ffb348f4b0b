"""A follower that waits although its leader resigned without successors is found."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.elections.goodbye import GoodbyesAreHeeded
from pykraft.sim.machine.spoken import Departure
from tests.sim.invariants.fakes import node, view, world


def told(*departures: Departure, is_leaving: bool = False, is_proven: bool = True, **more: Any) -> Any:
    """A node that was sent these goodbyes."""
    made = node(1, is_proven=is_proven, **more)
    made.process.wiretap.departures = list(departures)
    made.process.is_leaving = is_leaving
    return made


def goodbye(*, epoch: int = 1, leader_id: int = 2, has_successors: bool = False) -> Departure:
    return Departure(epoch=epoch, leader_id=leader_id, has_successors=has_successors)


FOLLOWS = view("follower", leader_id=2)


def test_who_waits_for_a_leader_that_left_is_found() -> None:
    with pytest.raises(ViolationError, match="node 1 waits, though 2 leads epoch 1 no more"):
        GoodbyesAreHeeded(world()).after_event(told(goodbye()), FOLLOWS)


@pytest.mark.parametrize(
    "departure", [goodbye(epoch=0), goodbye(leader_id=3), goodbye(has_successors=True), goodbye(leader_id=9)]
)
def test_a_goodbye_of_others_or_one_with_successors_is_no_reason(departure: Departure) -> None:
    follows = view("follower", leader_id=9 if departure.leader_id == 9 else 2)
    GoodbyesAreHeeded(world()).after_event(told(departure), follows)


def test_who_campaigns_or_may_not_is_in_order() -> None:
    made = GoodbyesAreHeeded(world())
    made.after_event(told(goodbye()), view("prospective"))
    for excused in (
        told(goodbye(), is_leaving=True),
        told(goodbye(), is_proven=False),
        told(goodbye(), is_damaged=True),
    ):
        GoodbyesAreHeeded(world()).after_event(excused, FOLLOWS)


def test_a_voter_that_never_leads_has_to_grant_pre_votes_only() -> None:
    made = told(goodbye())
    made.config.raft = replace(made.config.raft, never_leads=True)
    GoodbyesAreHeeded(world()).after_event(made, FOLLOWS)


def test_while_the_leader_is_heard_a_goodbye_proves_nothing_and_counts_when_it_is_heard_no_more() -> None:
    made = GoodbyesAreHeeded(world())
    made.after_event(told(goodbye()), view("follower", leader_id=2, has_fetched=True))
    with pytest.raises(ViolationError, match="node 1 waits"):
        made.after_event(told(goodbye()), FOLLOWS)


def test_each_goodbye_is_looked_at_once_and_a_new_process_was_told_nothing() -> None:
    made = GoodbyesAreHeeded(world())
    made.after_event(told(goodbye(has_successors=True)), FOLLOWS)
    made.after_event(told(goodbye()), FOLLOWS)
    made.after_event(node(), view("down"))
    made.started(node())
    with pytest.raises(ViolationError):
        made.after_event(told(goodbye()), FOLLOWS)
