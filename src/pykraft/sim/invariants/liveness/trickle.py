"""A voter does not wait long for a leader whose answer hardly moves.

A voter waits beyond the timeout for an answer that moves. An answer of a few bytes per second would hold it back for as
long as that lasts, and with it the election of a leader that works.

Source: ours (ADR 036); KIP-595 §Leader progress timeout.
"""

from __future__ import annotations

from typing import NamedTuple

from pykraft.core.answer_pace import floor_bytes
from pykraft.core.state import Follower
from pykraft.sim.invariants.invariant import Invariant, SimulatedNode, View

FETCH_TIMEOUTS = 3
"""The window in which enough came for the last time, the one in which too little comes, and one for slow clocks."""
LOOK_US = 50_000
US_PER_MS = 1_000


class _Waiting(NamedTuple):
    """Since when a follower waits for one answer, and how much of it had come then."""

    answered: int
    asked_us: int
    since_us: int
    received_bytes: int


class NobodyWaitsForATrickle(Invariant):
    """No voter follows a leader whose answer has hardly moved for three fetch timeouts."""

    def _begin(self) -> None:
        self._waiting: dict[int, _Waiting] = {}
        self._next_us: dict[int, int] = {}

    def changed(self, node: SimulatedNode, was: View, now: View) -> None:
        """A change of role or epoch, however short, interrupts the wait."""
        if (was.role, was.epoch) != (now.role, now.epoch):
            self._waiting.pop(int(node.node_id), None)

    def after_event(self, node: SimulatedNode, now: View) -> None:
        """Check how much has come of the answer that a follower waits for."""
        node_id, now_us = int(node.node_id), self.facts.clock.now_us
        if now_us < self._next_us.get(node_id, 0):
            return
        self._next_us[node_id] = now_us + LOOK_US
        process = node.process
        state = process.host.raft.state if process is not None and process.host.raft is not None else None
        is_fetching = isinstance(state, Follower) and state.download is None
        # A voter that never leads stays a follower when it gives its leader up. Any other ends its wait by a campaign.
        is_fetching = is_fetching and (not node.config.raft.never_leads or now.has_fetched)
        is_awaited = is_fetching and now.role == "follower" and not node.was_paused_since(now_us)
        if process is None or not is_awaited or node.is_damaged:
            self._waiting.pop(node_id, None)
            return
        asked_us, received_bytes = 0, 0
        for connection, sent_us in process.wiretap.open_fetches.items():
            if sent_us >= asked_us:
                asked_us, received_bytes = sent_us, self.facts.network.received_size_bytes(connection)[0]
        was = self._waiting.get(node_id)
        floor = floor_bytes(node.config.raft.fetch_size_bytes_max)
        answered = process.wiretap.fetch_answers.total()
        is_same = was is not None and (was.answered, was.asked_us) == (answered, asked_us)
        if was is None or not is_same or received_bytes - was.received_bytes >= floor:
            self._waiting[node_id] = _Waiting(answered, asked_us, now_us, received_bytes)
            return
        still_us = now_us - was.since_us
        if asked_us and still_us > FETCH_TIMEOUTS * node.config.raft.fetch_timeout_ms * US_PER_MS:
            came = f"{received_bytes - was.received_bytes} bytes of its answer came"
            raise self.violated(f"node {node_id} follows {now.leader_id} though {came} in {still_us} us")
