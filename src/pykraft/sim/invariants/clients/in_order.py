"""A listener gets each committed record once, in order, or a snapshot in its place.

Source: Kafka's ``RaftClient.Listener`` and its ``handleLoadSnapshot`` (KIP-630); ``RaftEventSimulationTest`` (the
counter of a listener grows in steps of 1).
"""

from __future__ import annotations

from collections.abc import Sequence

from pykraft.sim.invariants.invariant import CommittedBatch, Invariant, OffsetAndEpoch, SimulatedNode


class DeliveredOnceInOrder(Invariant):
    """Each batch that a listener gets begins where the former one ended; the first batch of a process begins at 0.

    A snapshot replaces the records before its end, and must contain some that the listener did not get yet.
    """

    def _begin(self) -> None:
        self._next: dict[int, int] = {}

    def started(self, node: SimulatedNode) -> None:
        """A new process has new listeners."""
        self._next[int(node.node_id)] = 0

    def loaded(self, node: SimulatedNode, snapshot_id: OffsetAndEpoch) -> None:
        """Continue at the end of the snapshot, which must lie beyond the last delivery."""
        node_id = int(node.node_id)
        expected = self._next.get(node_id, 0)
        if snapshot_id.offset <= expected:
            raise self.violated(f"node {node_id} is given a snapshot up to {snapshot_id.offset}, {expected} is next")
        self._next[node_id] = snapshot_id.offset

    def delivered(self, node: SimulatedNode, batches: Sequence[CommittedBatch]) -> None:
        """Compare with the end of the former batch."""
        node_id = int(node.node_id)
        for batch in batches:
            expected = self._next.get(node_id, 0)
            if batch.base_offset != expected:
                raise self.violated(f"node {node_id} is given offset {batch.base_offset}, {expected} is next")
            self._next[node_id] = batch.end_offset
