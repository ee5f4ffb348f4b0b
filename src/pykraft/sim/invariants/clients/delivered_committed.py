"""A listener gets only committed records.

A record is committed when a leader has counted it on a majority: it lies below the leader's high watermark at some
time.

Source: Raft paper §5.3 (a committed entry is applied); Kafka's ``KafkaRaftClient.updateListenersProgress``.
"""

from __future__ import annotations

from collections.abc import Sequence

from pykraft.sim.invariants.invariant import CommittedBatch, Invariant, OffsetAndEpoch, SimulatedNode, View


class DeliveredIsCommitted(Invariant):
    """No listener gets anything at or above the highest high watermark that a leader ever had."""

    def _begin(self) -> None:
        self._given: dict[int, int] = {}

    def delivered(self, node: SimulatedNode, batches: Sequence[CommittedBatch]) -> None:
        """Remember the delivery until the event is over, because a leader may commit the records in the same event."""
        self._given[int(node.node_id)] = batches[-1].end_offset

    def loaded(self, node: SimulatedNode, snapshot_id: OffsetAndEpoch) -> None:
        """Remember a loaded snapshot in the same way."""
        self._given[int(node.node_id)] = snapshot_id.offset

    def after_event(self, node: SimulatedNode, _now: View) -> None:
        """Compare the deliveries with what leaders have committed."""
        given = self._given.pop(int(node.node_id), 0)
        committed = self.facts.committed.end_offset
        if given > committed:
            raise self.violated(f"node {node.node_id} is given what is below {given}, committed is {committed}")
