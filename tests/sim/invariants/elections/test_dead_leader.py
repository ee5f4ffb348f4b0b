"""A leader whose process ended, and that nobody misses in time, is found; only when nothing else is wrong."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from pykraft.sim.facts.view import DOWN
from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.elections.dead_leader import DeadLeaderIsMissed
from pykraft.sim.scenario.scenario import DEFAULT, LinkSettings, QuorumSettings
from tests.sim.invariants.fakes import BEFORE, node, view, world

LEADS, ENDED = view("leader"), view(DOWN)
FOLLOWS = view("follower", leader_id=1, has_fetched=True)
SLOW = replace(DEFAULT, quorum=QuorumSettings(fetch_timeout_ms=4_000))
MISSED = "node 1, the leader of epoch 1, ended .* us ago, and no voter is a candidate yet"


class Story:
    """Node 1 leads, nodes 2 and 3 follow it."""

    def __init__(self, scenario: Any = SLOW) -> None:
        self.facts = world(now_us=0)
        self.facts.scenario = scenario
        self.facts.network.is_usual = True
        self.facts.nodes = {each: running(each) for each in (1, 2, 3)}
        self.oracle = DeadLeaderIsMissed(self.facts)
        self.see(1, BEFORE, LEADS)
        for each in (2, 3):
            self.see(each, BEFORE, FOLLOWS)

    def see(self, node_id: int, was: Any, now: Any) -> None:
        self.oracle.changed(self.facts.nodes[node_id], was, now)

    def end(self) -> None:
        self.see(1, LEADS, ENDED)

    def wait(self) -> None:
        for _ in range(2):
            self.facts.clock.now_us += self.oracle.bound_us // 2 + 1
            self.oracle.after_event(self.facts.nodes[2], FOLLOWS)


def running(node_id: int) -> Any:
    made = node(node_id, epoch=1)
    made.process.is_paused = made.process.is_leaving = False
    made.disk.io_errors = SimpleNamespace(stalled_until_us=0)
    return made


def test_a_leader_that_nobody_misses_is_found() -> None:
    story = Story()
    story.wait()
    story.end()
    with pytest.raises(ViolationError, match=MISSED):
        story.wait()


def test_a_candidate_or_the_leaders_return_is_in_time() -> None:
    for node_id, now in ((2, view("candidate", 2)), (1, view("resigned"))):
        story = Story()
        story.end()
        story.see(3, FOLLOWS, view("prospective"))
        story.see(node_id, FOLLOWS, now)
        story.wait()


def test_another_fault_meanwhile_is_an_excuse() -> None:
    story = Story()
    story.end()
    story.facts.counts["pause"] += 1
    story.wait()
    story = Story()
    story.end()
    story.facts.network.is_usual = False
    story.wait()


@pytest.mark.parametrize("field", ["is_paused", "is_leaving"])
def test_all_others_have_to_run(field: str) -> None:
    story = Story()
    setattr(story.facts.nodes[3].process, field, True)
    story.end()
    story.wait()


def test_all_others_have_to_follow_and_to_be_whole() -> None:
    story = Story()
    story.facts.nodes[3].process = None
    story.end()
    story.wait()
    story = Story()
    story.facts.nodes[3].is_damaged = True
    story.end()
    story.wait()
    story = Story()
    story.facts.nodes[3].disk.io_errors.stalled_until_us = 9
    story.end()
    story.wait()
    story = Story()
    story.see(3, FOLLOWS, view("follower", leader_id=1))
    story.end()
    story.wait()
    story = Story()
    story.facts.network.is_usual = False
    story.end()
    story.facts.network.is_usual = True
    story.wait()


def test_it_judges_only_where_a_dial_is_answered_and_the_timeout_is_long() -> None:
    for scenario in (
        DEFAULT,
        replace(SLOW, links=LinkSettings(unanswered_probability=0.1)),
        replace(SLOW, links=LinkSettings(half_open_probability=0.1)),
    ):
        story = Story(scenario)
        story.end()
        story.wait()
