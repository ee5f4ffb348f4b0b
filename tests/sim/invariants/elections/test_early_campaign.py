"""A campaign before the fetch timeout without a refusal, or without an answer since the last one, is found."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from pykraft.core.state import Follower
from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.elections.early_campaign import EarlyCampaignsHaveReason
from pykraft.sim.machine.spoken import Departure
from pykraft.sim.scenario.settings import listeners_of
from pykraft.types import Epoch, NodeId
from tests.sim.invariants.fakes import BEFORE, node, view, world

FOLLOWS, CAMPAIGNS = view("follower", leader_id=2), view("prospective")
OBSERVES = view("observer", leader_id=2)
NO_REFUSAL = "has refused no connection since it answered"
NO_ANSWER = "has not answered since the last time"


def made(
    answers: int,
    refusals: int,
    *,
    ms: int = 0,
    departures: int = 0,
    epoch: int = 1,
    has_fetched: bool = True,
    process: Any = None,
) -> Any:
    """A follower of node 2 with a fetch deadline at 500 ms, and what its process has seen of node 2."""
    state = Follower(
        epoch=Epoch(epoch),
        leader_id=NodeId(2),
        leader_listeners=listeners_of(2),
        fetch_deadline_ms=500,
        update_deadline_ms=0,
        has_fetched=has_fetched,
    )
    found = node(1, ms=ms, raft=SimpleNamespace(state=state))
    if process is not None:
        process.host = found.process.host
        found.process = process
    found.process.wiretap = SimpleNamespace(
        answers={2: answers},
        refusals={2: refusals},
        departures=[Departure(epoch=epoch, leader_id=2, has_successors=True)] * departures,
    )
    return found


class Story:
    """One process of node 1."""

    def __init__(self) -> None:
        self.oracle = EarlyCampaignsHaveReason(world())
        self.process = made(0, 0).process

    def follows(self, answers: int, refusals: int, **seen: Any) -> None:
        self.oracle.after_event(made(answers, refusals, process=self.process, **seen), FOLLOWS)

    def observes(self, answers: int, refusals: int, **seen: Any) -> None:
        self.oracle.after_event(made(answers, refusals, process=self.process, **seen), OBSERVES)

    def campaigns(self, answers: int, refusals: int, **seen: Any) -> None:
        self.oracle.changed(made(answers, refusals, process=self.process, **seen), FOLLOWS, CAMPAIGNS)


def test_a_campaign_after_an_answer_and_a_refusal_is_right_once() -> None:
    story = Story()
    story.follows(0, 0)
    story.follows(3, 0)
    story.campaigns(3, 1, ms=100)
    story.follows(3, 1)
    with pytest.raises(ViolationError, match=NO_ANSWER):
        story.campaigns(3, 2, ms=200)
    story.campaigns(3, 2, ms=500)
    story.follows(4, 2)
    story.campaigns(4, 3, ms=300)


def test_an_answer_to_the_observer_that_it_was_counts_for_a_voter() -> None:
    story = Story()
    story.observes(0, 0)
    story.follows(1, 0)  # the answer brought the record that makes it a voter
    story.campaigns(1, 1, ms=100)
    story.follows(1, 1)
    with pytest.raises(ViolationError, match=NO_ANSWER):
        story.campaigns(1, 2, ms=200)


def test_a_campaign_without_a_refusal_is_found() -> None:
    story = Story()
    story.follows(0, 1)
    story.follows(3, 1)
    with pytest.raises(ViolationError, match=NO_REFUSAL):
        story.campaigns(3, 1, ms=100)


def test_not_where_a_stranger_poses_as_the_leader() -> None:
    story = Story()
    story.oracle.facts.claims.leads(1)
    story.follows(0, 1)
    story.follows(3, 1)
    story.campaigns(3, 1, ms=100)


def test_a_leader_that_never_answered_has_no_early_campaign_against_it() -> None:
    story = Story()
    story.follows(7, 0)
    with pytest.raises(ViolationError, match=NO_ANSWER):
        story.campaigns(7, 1, ms=100)


def test_an_answer_of_who_leads_no_more_does_not_take_the_reason_away() -> None:
    story = Story()
    story.follows(0, 0)
    story.follows(3, 0)
    story.follows(3, 1, has_fetched=False)
    story.follows(4, 1, has_fetched=False)
    story.campaigns(4, 1, ms=100)


def test_end_quorum_epoch_is_a_reason() -> None:
    story = Story()
    story.follows(0, 0)
    story.campaigns(0, 0, ms=100, departures=1)


@pytest.mark.parametrize("has_fetched", [True, False])
def test_a_voter_that_never_leads_has_reasons_of_its_own_only_after_it_gave_its_leader_up(has_fetched: bool) -> None:
    story = Story()
    story.follows(3, 0)
    one = made(3, 0, ms=100, process=story.process)
    one.config.raft = replace(one.config.raft, never_leads=True)
    follows = view("follower", leader_id=2, has_fetched=has_fetched)
    if has_fetched:
        with pytest.raises(ViolationError, match=NO_REFUSAL):
            story.oracle.changed(one, follows, CAMPAIGNS)
    else:
        story.oracle.changed(one, follows, CAMPAIGNS)


def test_another_role_epoch_or_process_is_no_campaign_of_this_follower() -> None:
    story = Story()
    story.campaigns(0, 0)
    story.follows(0, 0)
    story.oracle.changed(made(0, 0, process=story.process), FOLLOWS, view("prospective", 2))
    story.oracle.changed(made(0, 0, process=story.process), FOLLOWS, view("unattached"))
    story.oracle.changed(made(0, 0), FOLLOWS, CAMPAIGNS)
    story.oracle.changed(node(1), FOLLOWS, CAMPAIGNS)


def test_only_a_follower_is_remembered() -> None:
    oracle = EarlyCampaignsHaveReason(world())
    for seen, now in ((node(1), BEFORE), (made(0, 0), view("leader"))):
        oracle.after_event(seen, now)
    oracle.changed(made(0, 0), FOLLOWS, CAMPAIGNS)
