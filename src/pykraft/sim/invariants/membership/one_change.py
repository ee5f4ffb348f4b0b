"""A leader writes no voter set while the one before it is in doubt.

With two changes in doubt there are majorities of the first and the third set that have no member in common: both could
elect a leader.

Source: KIP-853 (one change at a time); Raft dissertation §4.1; Kafka ``AddVoterHandler`` and its siblings.
"""

from __future__ import annotations

from pykraft.sim.facts.electorate import VoterRecord
from pykraft.sim.invariants.invariant import Invariant
from pykraft.sim.machine.node import Node


class OneChangeInDoubt(Invariant):
    """Whoever writes a voter set knows the newest one in its log to be committed."""

    def voters_written(self, node: Node, record: VoterRecord, committed_end: int) -> None:
        """Look at the newest set before this one; what a leader opens its epoch with names nobody else."""
        before = self.facts.members.record_of(node)
        if before is not None and before.offset >= committed_end and not record.is_opening:
            seen = f"leader {node.node_id} of epoch {record.entry.epoch} writes a voter set at {record.offset}"
            raise self.violated(f"{seen}, the one at {before.offset} is in doubt: {committed_end} is committed")
