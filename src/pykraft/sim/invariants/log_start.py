"""A log that does not start at 0 starts at a snapshot.

Source: Kafka ``RaftEventSimulationTest.SnapshotAtLogStart``; KIP-630.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykraft.sim.invariants.invariant import Invariant

if TYPE_CHECKING:
    from pykraft.sim.node import Node
    from pykraft.sim.world import World


class LogStartIsSnapshot(Invariant):
    """Without snapshots in the world, every log starts at 0."""

    def after_event(self, world: World, node: Node) -> None:
        """Look at the node if it runs."""
        del world
        host = node.host
        if host is not None and host.log_start_offset != 0:
            raise self.violated(f"the log of node {host.node_id} starts at {host.log_start_offset}, without a snapshot")
