"""A log that does not start at 0 starts at a snapshot.

Source: Kafka ``RaftEventSimulationTest.SnapshotAtLogStart``; KIP-630.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykraft.sim.invariants.invariant import Invariant

if TYPE_CHECKING:
    from pykraft.sim.node import Node


class LogStartIsSnapshot(Invariant):
    """Without snapshots in the world, every log starts at 0."""

    def started(self, node: Node) -> None:
        """Look at what recovery found; nothing moves the start of a log afterwards."""
        host = node.host
        if host is not None and host.log_start_offset != 0:
            raise self.violated(f"the log of node {node.node_id} starts at {host.log_start_offset}, without a snapshot")
