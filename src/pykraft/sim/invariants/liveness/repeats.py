"""Nobody says the same to its operator again and again.

Lines about one thing in many words a second hide all others, and fill the disk.

Source: ours; Kafka's ``KafkaRaftClient`` logs a change of state once.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from pykraft.sim.facts.facts import Facts
from pykraft.sim.invariants.invariant import Invariant
from pykraft.sim.machine.node import Node

WINDOW_US: Final = 1_000_000
CLOSING: Final = "closing the connection"
TIMES_MAX: Final = 12
"""Of one line of one process within the window."""


class NobodyRepeatsItself(Invariant):
    """No process reports the same line more than some times a second."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._said: dict[tuple[int, str], deque[int]] = {}

    def started(self, node: Node) -> None:
        """A new process may say it again."""
        for key in [key for key in self._said if key[0] == int(node.node_id)]:
            del self._said[key]

    def reported(self, node: Node, text: str) -> None:
        """Count it; whoever closes a connection says so each time, and is paced by what it waits before the next."""
        if text.startswith(CLOSING) or self.facts.claims.is_any:
            return  # what strangers make nodes say has a bound of its own
        now_us = self.facts.clock.now_us
        times = self._said.setdefault((int(node.node_id), text), deque())
        times.append(now_us)
        while times[0] < now_us - WINDOW_US:
            times.popleft()
        if len(times) > TIMES_MAX:
            raise self.violated(f"node {node.node_id} says {len(times)} times within a second: {text}")
