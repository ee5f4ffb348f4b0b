"""Committed records stay committed: the high watermark never goes back.

Source: Raft paper §5.3–5.4; Kafka ``RaftEventSimulationTest.MonotonicHighWatermark``.
"""

from __future__ import annotations

from pykraft.sim.invariants.invariant import Invariant, SimulatedNode, View


class MonotonicHighWatermark(Invariant):
    """The high watermark of the leader with the highest epoch never decreases."""

    def _begin(self) -> None:
        self._highest = 0
        self._epoch = 0

    def changed(self, node: SimulatedNode, _was: View, now: View) -> None:
        """Check only the newest leader so far: an older one may still run without knowing that it was replaced."""
        if not now.leads or now.epoch < self._epoch or now.high_watermark is None:
            return
        self._epoch = now.epoch
        if now.high_watermark < self._highest:
            seen = f"leader {node.node_id} of epoch {now.epoch} is at {now.high_watermark}"
            raise self.violated(f"{seen}, but {self._highest} was reached before")
        self._highest = now.high_watermark
