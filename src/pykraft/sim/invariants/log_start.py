"""A log that does not start at 0 starts at a snapshot.

Source: Kafka ``RaftEventSimulationTest.SnapshotAtLogStart``; KIP-630.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykraft.sim.invariants.invariant import Invariant

if TYPE_CHECKING:
    from pykraft.sim.world import World


class LogStartIsSnapshot(Invariant):
    """Without snapshots in the world, every log starts at 0."""

    def after_event(self, world: World) -> None:
        """Look at every running node."""
        for host in world.hosts():
            if host.log_start_offset != 0:
                raise self.violated(
                    f"the log of node {host.node_id} starts at {host.log_start_offset}, without a snapshot"
                )
