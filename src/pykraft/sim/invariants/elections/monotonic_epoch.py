"""Epochs only rise, on disk and in memory.

The durable epoch never decreases, and the epoch in memory is never below it; they are equal when no write is under way.

Source: Kafka ``RaftEventSimulationTest.MonotonicEpoch``, made stricter for writes that are under way; Raft paper §5.1.
"""

from __future__ import annotations

from pykraft.sim.invariants.invariant import Invariant, SimulatedNode, View


class MonotonicEpoch(Invariant):
    """The durable epoch of a node never falls, and the one in memory never falls below it."""

    def _begin(self) -> None:
        self._durable: dict[int, int] = {}

    def wiped(self, node: SimulatedNode) -> None:
        """Its epoch begins anew."""
        self._durable.pop(node.node_id, None)

    def forgot_votes(self, node: SimulatedNode) -> None:
        """Its durable epoch is an earlier one."""
        self.wiped(node)

    def changed(self, node: SimulatedNode, _was: View, now: View) -> None:
        """Compare the disk with its former state, and memory with the disk."""
        durable, known = now.disk.epoch, self._durable.get(node.node_id, 0)
        if durable < known:
            raise self.violated(f"quorum-state of node {node.node_id} fell from epoch {known} to {durable}")
        self._durable[node.node_id] = durable
        if now.is_up and (now.epoch < durable or (now.is_settled and now.epoch != durable)):
            raise self.violated(f"node {node.node_id} is in epoch {now.epoch}, its disk in {durable}")
