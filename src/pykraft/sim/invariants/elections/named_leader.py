"""No node names itself as the leader of an epoch before that is durable.

A leader that loses power before its election is durable becomes a candidate of the same epoch again, and may win again.
A node that had heard of it before would then follow two leaders of one epoch.

Source: Raft paper §5.1 (stable storage before responding); KIP-595 §Vote (the answer names the leader).
"""

from __future__ import annotations

from pykraft.sim.invariants.invariant import Invariant, SimulatedNode, Spoken


class LeaderIsDurableFirst(Invariant):
    """No answer to a Vote names its sender as the leader of an epoch that a power loss now would not leave it."""

    def before_send(self, node: SimulatedNode, spoken: Spoken) -> None:
        """Compare the answer with the node's platter."""
        if spoken.leader_id != int(node.node_id):
            return
        durable = self.facts.platters.election(node)
        # In a later epoch it can lead the one it names no more, so nobody can follow another leader there.
        if durable.epoch <= spoken.epoch and (durable.epoch, durable.leader_id) != (spoken.epoch, spoken.leader_id):
            seen = f"node {node.node_id} says that it leads epoch {spoken.epoch}"
            raise self.violated(f"{seen}, its disk knows leader {durable.leader_id} of epoch {durable.epoch}")
