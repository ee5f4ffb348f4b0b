"""A candidacy while a majority reaches its leader is found, whatever these voters believe."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pykraft.core.state import Follower
from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.elections.reached_leader import ReachedLeaderStays
from pykraft.sim.scenario.settings import listeners_of
from pykraft.types import Epoch, NodeId
from tests.sim.invariants.fakes import BEFORE, node, view, world

LEADER, FOLLOWS = view("leader", 1), view("follower", 1, leader_id=1)
ASKING, CANDIDATE = view("prospective", 1), view("candidate", 2)


class Story:
    """Node 1 leads, node 2 follows, node 3 wants to lead."""

    def __init__(self, *, has_pre_votes: bool = True) -> None:
        self.facts = world()
        self.facts.members.has_pre_votes = has_pre_votes
        self.oracle = ReachedLeaderStays(self.facts)
        self.process: Any = None
        self.facts.nodes = {}
        self.oracle.changed(node(1), BEFORE, LEADER)

    def follower(self, answers: int, *, refusals: int = 0, departures: int = 0, ms: int = 0) -> Any:
        state = Follower(
            epoch=Epoch(1),
            leader_id=NodeId(1),
            leader_listeners=listeners_of(1),
            fetch_deadline_ms=500,
            update_deadline_ms=0,
        )
        made = node(2, ms=ms, raft=SimpleNamespace(state=state))
        self.process = made.process = self.process or made.process
        made.process.host = made.host
        made.process.wiretap = SimpleNamespace(
            fetch_answers={1: answers}, refusals={1: refusals}, departures=[None] * departures
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
    story.oracle.reported(story.follower(2), "something else")
    story.oracle.reported(story.follower(2), "node 1 is given up as the leader of epoch 1: it lies")
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
