"""A process does not repeat the same report to its operator many times a second.

Such lines hide all others and fill the disk.

Source: ours; Kafka's ``KafkaRaftClient`` logs a change of state once.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from pykraft.sim.invariants.invariant import Invariant, Report, SimulatedNode
from pykraft.types import ReportKind

WINDOW_US: Final = 1_000_000
TIMES_MAX: Final = 12
"""Limit for one line of one process within the window."""


class NobodyRepeatsItself(Invariant):
    """No process reports the same line more than a few times a second."""

    def _begin(self) -> None:
        self._said: dict[tuple[int, str], deque[int]] = {}

    def started(self, node: SimulatedNode) -> None:
        """A new process may report it again."""
        for key in [key for key in self._said if key[0] == int(node.node_id)]:
            del self._said[key]

    def reported(self, node: SimulatedNode, report: Report) -> None:
        """Count the line. Lines about closed connections do not count: each has its reason, and a back-off follows."""
        if report.kind is ReportKind.PEER_CLOSED or self.facts.claims.is_any:
            return  # Another bound applies to what strangers make nodes report.
        now_us = self.facts.clock.now_us
        times = self._said.setdefault((int(node.node_id), report.text), deque())
        times.append(now_us)
        while times[0] < now_us - WINDOW_US:
            times.popleft()
        if len(times) > TIMES_MAX:
            raise self.violated(f"node {node.node_id} says {len(times)} times within a second: {report.text}")
