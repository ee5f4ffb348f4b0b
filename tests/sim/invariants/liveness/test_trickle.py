"""A voter that waits for an answer that hardly moves is found."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from pykraft.host.ports import ConnectionId
from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.liveness.trickle import LOOK_US, NobodyWaitsForATrickle
from tests.core.replicas import follower
from tests.sim.invariants.fakes import node, view, world

CONNECTION = ConnectionId(4)
FLOOR_BYTES = 1_048_576 // 64


class Waiting:
    """Node 1 follows node 2 and waits for the answer to a Fetch."""

    def __init__(self) -> None:
        self.received_bytes = 0
        self.world = world()
        self.world.network = SimpleNamespace(received_size_bytes=lambda _: (self.received_bytes, 10**6))
        self.node: Any = node(1, raft=SimpleNamespace(state=follower()))
        self.wiretap = self.node.process.wiretap
        self.wiretap.open_fetches.update({ConnectionId(3): 1, CONNECTION: 5})
        self.wiretap.fetch_answers[2] = 7
        self.oracle = NobodyWaitsForATrickle(self.world)
        self.view = view("follower", leader_id=2)

    def look(self, now_us: int) -> None:
        self.world.clock.now_us = now_us
        self.oracle.after_event(self.node, self.view)


def test_what_moves_may_take_its_time() -> None:
    made = Waiting()
    for number in range(100):
        made.received_bytes = number * FLOOR_BYTES
        made.look(10 + number * 500_000)


def test_a_trickle_is_found() -> None:
    made = Waiting()
    made.look(10)
    made.look(20)
    made.received_bytes = FLOOR_BYTES - 1
    made.look(1_500_000)
    with pytest.raises(ViolationError, match="node 1 follows 2 though 16383 bytes of its answer came in 1550000 us"):
        made.look(1_550_010)


@pytest.mark.parametrize("has_fetched", [True, False])
def test_a_voter_that_never_leads_waits_until_it_gives_its_leader_up(has_fetched: bool) -> None:
    made = Waiting()
    made.node.config.raft = replace(made.node.config.raft, never_leads=True)
    made.view = view("follower", leader_id=2, has_fetched=has_fetched)
    made.look(10)
    if has_fetched:
        with pytest.raises(ViolationError):
            made.look(2_000_000)
    else:
        made.look(2_000_000)


@pytest.mark.parametrize("what", ["answered", "campaigned", "leads", "paused", "damaged", "down", "asks nothing"])
def test_who_does_not_wait_is_left_alone(what: str) -> None:
    made = Waiting()
    made.look(10)
    if what == "answered":
        made.wiretap.fetch_answers[2] += 1
    elif what == "campaigned":
        made.oracle.changed(made.node, made.view, view("prospective"))
        made.oracle.changed(made.node, made.view, made.view)
    elif what == "leads":
        made.view = view("leader")
    elif what == "paused":
        made.node.was_paused_since = lambda _: True
    elif what == "damaged":
        made.node.is_damaged = True
    elif what == "down":
        made.node.process = None
    else:
        made.wiretap.open_fetches.clear()
        made.look(10 + LOOK_US)
    made.look(2_000_000)
