"""A leader that has removed itself resigns when that is committed.

Until then it has to lead, because somebody must commit the change. After that the others would have a leader that is
not a voter and cannot count its own log.

Source: Raft dissertation §4.2.2; KIP-853 §RemoveRaftVoter; Kafka ``KafkaRaftClient.maybeResignLeadershipAfterRemoval``.
"""

from __future__ import annotations

from pykraft.sim.invariants.invariant import Invariant, SimulatedNode, View


class RemovedLeaderResigns(Invariant):
    """No node stays leader when a voter set without it is committed."""

    def changed(self, node: SimulatedNode, _was: View, now: View) -> None:
        """Check the newest set in the log of a leader."""
        if not now.leads or now.high_watermark is None:
            return
        newest = self.facts.members.record_of(node)
        is_voter = newest is None or newest.voters.is_voter(node.key)
        if newest is not None and not is_voter and newest.offset < now.high_watermark:
            seen = f"leader {node.node_id} of epoch {now.epoch} leads on at {now.high_watermark}"
            raise self.violated(f"{seen}, it is no voter since {newest.offset}")
