"""A node that has nothing to do sleeps.

A deadline that has passed and is not moved wakes its node again at once, for ever: a core is busy for nothing, and
nobody notices, because everything else works.

Source: ours; Kafka's ``KafkaRaftClient.poll`` (it waits on its queue until the next deadline).
"""

from __future__ import annotations

from collections import deque
from typing import Final

from pykraft.sim.invariants.invariant import Invariant, SimulatedNode

WINDOW_MS: Final = 1_000
WAKE_UPS_MAX: Final = 600
"""Limit within the window. The busiest nodes of a world reach about 200; one that spins reaches a thousand at once."""


class NobodyWakesForNothing(Invariant):
    """No timer of a process rings more than some hundred times a second of its own clock."""

    def _begin(self) -> None:
        self._rang_ms: dict[int, deque[int]] = {}

    def started(self, node: SimulatedNode) -> None:
        """A new process has a new timer."""
        self._rang_ms[int(node.node_id)] = deque()

    def woken(self, node: SimulatedNode) -> None:
        """Count the wake-up."""
        now_ms = node.clock.instant.mono_ms
        rang_ms = self._rang_ms.setdefault(int(node.node_id), deque())
        rang_ms.append(now_ms)
        while rang_ms[0] <= now_ms - WINDOW_MS:
            rang_ms.popleft()
        if len(rang_ms) > WAKE_UPS_MAX:
            raise self.violated(f"the timer of node {node.node_id} rang {len(rang_ms)} times within {WINDOW_MS} ms")
