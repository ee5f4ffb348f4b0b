"""A leader never loads a snapshot: its state holds everything already.

Source: Kafka ``RaftEventSimulationTest.LeaderNeverLoadSnapshot``.
"""

from __future__ import annotations

from pykraft.sim.invariants.invariant import Invariant, OffsetAndEpoch, SimulatedNode


class LeaderNeverLoadsSnapshot(Invariant):
    """A listener that was told that its node leads gets no snapshot as long as the node leads."""

    def _begin(self) -> None:
        self._leads: dict[int, int] = {}

    def started(self, node: SimulatedNode) -> None:
        """A new process has new listeners."""
        self._leads.pop(int(node.node_id), None)

    def told_leader(self, node: SimulatedNode, epoch: int, leader_id: int | None) -> None:
        """Remember the leader that the listener was told."""
        self._leads.pop(int(node.node_id), None)
        if leader_id == node.node_id:
            self._leads[int(node.node_id)] = epoch

    def loaded(self, node: SimulatedNode, snapshot_id: OffsetAndEpoch) -> None:
        """Check what the listener was told last, and whether that still holds."""
        epoch, status = self._leads.get(int(node.node_id)), node.status
        if epoch is not None and status is not None and status.leads and status.epoch == epoch:
            raise self.violated(f"node {node.node_id} leads epoch {epoch}, and is given the snapshot {snapshot_id}")
