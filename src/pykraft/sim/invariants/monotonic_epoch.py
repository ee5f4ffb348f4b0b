"""Epochs only rise, on disk and in memory, and none is spoken before it is durable.

The epoch in a file never decreases; the one in memory is never below it; no frame leaves with an epoch
above the one that a power loss now would leave behind.

Source: Kafka ``RaftEventSimulationTest.MonotonicEpoch``, made stricter for writes that are under way;
Raft paper §5.1 (currentTerm is updated on stable storage before responding to RPCs).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykraft.sim.invariants.invariant import Invariant

if TYPE_CHECKING:
    from pykraft.sim.node import Node
    from pykraft.sim.spoken import Spoken
    from pykraft.sim.world import World


class MonotonicEpoch(Invariant):
    """What is durable, remembered and said, in this order."""

    def __init__(self) -> None:
        self._durable: dict[int, int] = {}

    def after_event(self, world: World, node: Node) -> None:
        """Compare disk and memory; equal when no write is under way."""
        durable = world.durable_election(node).epoch
        if durable < self._durable.get(node.node_id, 0):
            seen = f"quorum-state of node {node.node_id} fell from epoch {self._durable[node.node_id]} to {durable}"
            raise self.violated(seen)
        self._durable[node.node_id] = durable
        process = node.process
        if process is None:
            return
        epoch = process.host.epoch
        if epoch < durable or (process.is_lane_idle and epoch != durable):
            raise self.violated(f"node {node.node_id} is in epoch {epoch}, its disk in {durable}")

    def before_send(self, world: World, node: Node, spoken: Spoken) -> None:
        """Nothing is said of an epoch that is not durable."""
        durable = world.durable_election(node).epoch
        if spoken.epoch > durable:
            raise self.violated(f"node {node.node_id} speaks of epoch {spoken.epoch}, its disk knows {durable}")
