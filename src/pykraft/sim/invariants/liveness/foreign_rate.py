"""A replica does not keep asking, without a pause, a peer that answers at once and brings nothing.

Whether the peer rejects the request, has nothing new, or breaks the protocol: a replica waits for its retry back-off
before it asks again. Otherwise one false leader could keep it, its disk and its network busy.

Source: ADR 028; Kafka's ``RequestManager`` (retry back-off).
"""

from __future__ import annotations

from collections import deque

from pykraft.sim.facts.facts import STRANGER_ID
from pykraft.sim.invariants.invariant import Invariant, SimulatedNode, Spoken

SECOND_US = 1_000_000
REQUESTS_MAX = 120
"""Requests per second. A retry back-off is 20 ms; a new epoch or leader allows some requests without one."""


class StrangersAreAskedSeldom(Invariant):
    """No process sends a stranger more than 120 requests of the quorum in a second."""

    def _begin(self) -> None:
        self._asked: dict[int, deque[int]] = {}

    def before_send(self, node: SimulatedNode, spoken: Spoken) -> None:
        """Count the requests of the last second."""
        if spoken.target_id != STRANGER_ID:
            return
        now_us = self.facts.clock.now_us
        asked = self._asked.setdefault(int(node.node_id), deque())
        asked.append(now_us)
        while asked[0] <= now_us - SECOND_US:
            asked.popleft()
        if len(asked) > REQUESTS_MAX:
            raise self.violated(f"node {node.node_id} has asked a stranger {len(asked)} times within a second")
