"""A voter that never leads and campaigns without a reason is found."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from pykraft.core.state import Follower
from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.elections.abstention import CampaignsOfLastResort
from pykraft.sim.scenario.settings import listeners_of
from pykraft.types import Epoch, NodeId
from tests.sim.invariants.fakes import node, view, world

FOLLOWS, CAMPAIGNS = view("follower", leader_id=2, has_fetched=True), view("prospective")


class Story:
    """One process of node 1."""

    def __init__(self, *, never_leads: bool = True) -> None:
        self.oracle = CampaignsOfLastResort(world())
        self._never_leads = never_leads
        self._process: Any = None

    def at(self, ms: int, *, asked: int = 0, deadline_ms: int = 500, is_new: bool = False) -> Any:
        state = Follower(
            epoch=Epoch(1),
            leader_id=NodeId(2),
            leader_listeners=listeners_of(2),
            fetch_deadline_ms=deadline_ms,
            update_deadline_ms=0,
            has_fetched=True,
        )
        found = node(1, ms=ms, raft=SimpleNamespace(state=state))
        if self._process is None or is_new:
            self._process = found.process
        found.process = self._process
        found.process.host.raft.state = state
        found.process.wiretap = SimpleNamespace(asked_by_shorter=asked)
        raft = replace(found.config.raft, never_leads=self._never_leads, election_timeout_ms=200)
        found.config = SimpleNamespace(raft=raft)
        return found

    def follows(self, ms: int, **seen: Any) -> None:
        self.oracle.after_event(self.at(ms, **seen), FOLLOWS)

    def campaigns(self, ms: int, **seen: Any) -> None:
        self.oracle.changed(self.at(ms, **seen), FOLLOWS, CAMPAIGNS)


def test_a_campaign_without_a_reason_is_found() -> None:
    story = Story()
    story.campaigns(0)
    story.follows(0)
    story.follows(50, asked=1)
    with pytest.raises(ViolationError, match="campaigns in epoch 1 after 599 ms, and no candidate"):
        story.campaigns(599)


def test_three_timeouts_or_a_shorter_log_are_reasons() -> None:
    story = Story()
    story.follows(0)
    story.campaigns(600)
    story.campaigns(10, asked=1)
    story.follows(20, asked=1, deadline_ms=520)
    with pytest.raises(ViolationError, match="after 30 ms"):
        story.campaigns(50, asked=1, deadline_ms=520)
    story.campaigns(60, asked=1, is_new=True)


def test_other_voters_are_not_judged() -> None:
    story = Story(never_leads=False)
    story.follows(0)
    story.campaigns(1)
