"""A log that does not start at 0 starts at a snapshot.

Source: Kafka ``RaftEventSimulationTest.SnapshotAtLogStart``; KIP-630 §When to Delete Snapshots.
"""

from __future__ import annotations

from pykraft.sim.invariants.invariant import Invariant, SimulatedNode, View


class LogStartIsSnapshot(Invariant):
    """A log that does not start at 0 starts where the oldest snapshot ends; after a start perhaps a little before.

    Segments are removed as a whole, so a starting node finds records that it had cleaned away.
    """

    def _begin(self) -> None:
        self._found: dict[int, int] = {}

    def started(self, node: SimulatedNode) -> None:
        """Check what recovery found."""
        assert node.status is not None
        start_offset = self._found[int(node.node_id)] = node.status.log_start_offset
        if start_offset and not any(each.offset >= start_offset for each in self.facts.platters.snapshots(node)):
            raise self.violated(f"the log of node {node.node_id} starts at {start_offset}, without a snapshot")

    def changed(self, node: SimulatedNode, was: View, now: View) -> None:
        """Check a changed log start or snapshot list."""
        start_offset, snapshots = now.log_start_offset, now.snapshots
        if not start_offset or (start_offset, snapshots) == (was.log_start_offset, was.snapshots):
            return
        oldest = snapshots[0].offset if snapshots else 0
        if oldest < start_offset or (oldest > start_offset and start_offset != self._found.get(int(node.node_id))):
            seen = f"the log of node {node.node_id} starts at {start_offset}"
            raise self.violated(f"{seen}, its oldest snapshot ends at {oldest or 'none'}")
