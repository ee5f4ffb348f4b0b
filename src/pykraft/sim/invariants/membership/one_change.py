"""A leader writes no voter set before the former one is committed.

With two uncommitted changes, a majority of the first set and a majority of the third may have no member in common, and
both could elect a leader.

Source: KIP-853 (one change at a time); Raft dissertation §4.1; Kafka ``AddVoterHandler`` and its siblings.
"""

from __future__ import annotations

from pykraft.sim.invariants.invariant import Invariant, SimulatedNode, VoterRecord


class OneChangeInDoubt(Invariant):
    """A leader that writes a voter set knows that the newest one in its log is committed."""

    def voters_written(self, node: SimulatedNode, record: VoterRecord, committed_end: int) -> None:
        """Check the newest set before this one; the first batch of a leader changes no voters."""
        before = self.facts.members.record_of(node)
        if before is not None and before.offset >= committed_end and not record.is_opening:
            seen = f"leader {node.node_id} of epoch {record.entry.epoch} writes a voter set at {record.offset}"
            raise self.violated(f"{seen}, the one at {before.offset} is in doubt: {committed_end} is committed")
