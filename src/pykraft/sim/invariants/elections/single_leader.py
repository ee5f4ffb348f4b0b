"""An epoch never has more than one leader.

Source: Raft paper §5.2 (Election Safety); Kafka ``RaftEventSimulationTest.SingleLeader``; ElectionSafety of
Vanlightly's specification of KRaft.
"""

from __future__ import annotations

from pykraft.sim.invariants.invariant import Invariant, SimulatedNode, View


class SingleLeader(Invariant):
    """No two nodes are leader of the same epoch, in the memory or on the disk of any node."""

    def _begin(self) -> None:
        self._leaders: dict[int, int] = {}

    def changed(self, _node: SimulatedNode, _was: View, now: View) -> None:
        """Compare what the node knows with what was seen before."""
        for epoch, leader_id in ((now.epoch, now.leader_id), (now.disk.epoch, now.disk.leader_id)):
            # Whoever only heard of a leader that is none follows the real one as soon as that answers.
            claims = self.facts.claims
            if leader_id is None or epoch in claims.led or (epoch, leader_id) in claims.misnamed:
                continue
            known = self._leaders.setdefault(epoch, leader_id)
            if known != leader_id:
                raise self.violated(f"epoch {epoch} has leaders {known} and {leader_id}")
