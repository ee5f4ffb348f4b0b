"""A node sends no epoch before that epoch is durable.

If it lost the epoch with the power, it could later do in that epoch what it had promised not to do.

Source: Raft paper §5.1 (currentTerm is updated on stable storage before responding to RPCs); etcd ``raft/doc.go``.
"""

from __future__ import annotations

from pykraft.sim.invariants.invariant import Invariant, SimulatedNode, Spoken


class EpochIsDurableFirst(Invariant):
    """No frame leaves with an epoch above the one that a power loss now would leave."""

    def before_send(self, node: SimulatedNode, spoken: Spoken) -> None:
        """Compare the frame with the platter."""
        durable = self.facts.platters.election(node).epoch
        if spoken.epoch > durable:
            raise self.violated(f"node {node.node_id} speaks of epoch {spoken.epoch}, its disk knows {durable}")
