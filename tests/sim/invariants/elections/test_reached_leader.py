"""A candidacy while a majority reaches its leader is found, whatever these voters believe."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from pykraft.core.state import Follower
from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.elections.reached_leader import ReachedLeaderStays
from pykraft.sim.scenario.settings import listeners_of
from pykraft.types import Epoch, NodeId, ReportKind
from tests.sim.invariants.fakes import BEFORE, node, report, view, world

LEADER, FOLLOWS = view("leader", 1), view("follower", 1, leader_id=1)
ASKING, CANDIDATE = view("prospective", 1), view("candidate", 2)


class Story:
    """Node 1 leads, node 2 follows, node 3 wants to lead."""

    def __init__(self, *, has_pre_votes: bool = True, never_leads: bool = False) -> None:
        self.never_leads = never_leads
        self.facts = world()
        self.facts.members.has_pre_votes = has_pre_votes
        self.oracle = ReachedLeaderStays(self.facts)
        self.process: Any = None
        self.facts.nodes = {}
        self.oracle.changed(node(1), BEFORE, LEADER)

    def follower(
        self,
        answers: int,
        *,
        older: int = 0,
        refusals: int = 0,
        departures: int = 0,
        ms: int = 0,
        has_fetched: bool = True,
    ) -> Any:
        state = Follower(
            epoch=Epoch(1),
            leader_id=NodeId(1),
            leader_listeners=listeners_of(1),
            fetch_deadline_ms=500,
            update_deadline_ms=0,
            has_fetched=has_fetched,
        )
        made = node(2, ms=ms, raft=SimpleNamespace(state=state))
        made.config.raft = replace(made.config.raft, never_leads=self.never_leads)
        self.process = made.process = self.process or made.process
        made.process.host = made.host
        made.process.wiretap = SimpleNamespace(
            fetch_answers_in={(1, 1): answers, (1, 0): older}, refusals={1: refusals}, departures=[None] * departures
        )
        self.facts.nodes[2] = made
        return made

    def follows(self, answers: int, **seen: Any) -> None:
        self.oracle.after_event(self.follower(answers, **seen), FOLLOWS)

    def campaign(self) -> None:
        self.oracle.changed(node(3), BEFORE, ASKING)
        self.oracle.changed(node(3), ASKING, CANDIDATE)


def reached() -> Story:
    story = Story()
    story.follows(0)
    story.follows(1)
    story.follows(2, ms=10)
    return story


def test_a_candidate_is_found_while_a_majority_reaches_the_leader() -> None:
    with pytest.raises(ViolationError, match=r"while the majority \[1, 2\] reached the leader of epoch 1"):
        reached().campaign()


def test_not_after_the_fetch_timeout() -> None:
    story = reached()
    story.follower(2, ms=510)
    story.campaign()


def test_a_voter_that_never_leads_follows_on_but_may_give_its_leader_up_after_the_timeout() -> None:
    story = Story(never_leads=True)
    for answers in range(3):
        story.follows(answers, ms=10)
    story.follows(2, ms=510, has_fetched=False)
    story.oracle.changed(node(3), BEFORE, ASKING)
    # An answer that comes too late is ignored, and one that counts makes the reach a new one.
    story.follows(3, ms=520, has_fetched=False)
    story.follows(4, ms=530)
    story.oracle.changed(node(3), ASKING, CANDIDATE)
    story.follows(5, ms=540)
    with pytest.raises(ViolationError):
        story.campaign()


def test_a_voter_that_never_leads_and_gives_its_leader_up_too_early_is_found() -> None:
    story = Story(never_leads=True)
    for answers in range(3):
        story.follows(answers, ms=10)
    story.follows(2, ms=509, has_fetched=False)
    with pytest.raises(ViolationError):
        story.campaign()


@pytest.mark.parametrize("seen", [{"refusals": 1}, {"departures": 1}])
def test_not_after_a_refusal_or_end_quorum_epoch(seen: dict[str, int]) -> None:
    story = reached()
    story.follows(2, **seen)
    story.campaign()


def test_not_when_the_reach_is_newer_than_the_question() -> None:
    story = Story()
    story.oracle.changed(node(3), BEFORE, ASKING)
    story.follows(0)
    story.follows(1)
    story.oracle.changed(node(3), ASKING, CANDIDATE)


def test_not_after_answers_to_what_was_asked_in_an_older_epoch() -> None:
    story = Story()
    for older in range(3):
        story.follows(0, older=older)
    story.campaign()


def test_not_without_an_answer_or_a_leader() -> None:
    story = Story()
    story.follows(0)
    story.campaign()
    story = Story()
    story.oracle.changed(node(1), LEADER, view("resigned"))
    story.follows(0)
    story.follows(1)
    story.campaign()
    story = reached()
    story.oracle.changed(node(1), LEADER, view("resigned"))
    story.campaign()


def test_not_when_the_follower_has_left_it() -> None:
    story = reached()
    story.oracle.after_event(story.follower(2), view("observer"))
    story.campaign()
    story = reached()
    story.oracle.reported(story.follower(2), report())
    story.oracle.reported(story.follower(2), report(ReportKind.LEADER_GIVEN_UP, 1))
    story.campaign()
    story = reached()
    story.process = None
    story.follower(2)
    story.campaign()


def test_not_where_nodes_know_no_pre_votes() -> None:
    story = Story(has_pre_votes=False)
    story.follows(0)
    story.follows(1)
    story.campaign()
    story.oracle.changed(node(1), LEADER, LEADER)
