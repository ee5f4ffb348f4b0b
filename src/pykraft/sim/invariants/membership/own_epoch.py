"""A leader writes no voter set before a record of its own epoch is committed.

A former leader may have written another set that is on less than a majority and may still be committed. Then two sets
would follow the same one, and differ by two voters (the flaw that was found in the dissertation's rule).

Source: Diego Ongaro, "bug in single-server membership changes" (raft-dev, July 2015); KIP-853; Kafka
``AddVoterHandler`` (the high watermark must be known).
"""

from __future__ import annotations

from pykraft.sim.invariants.invariant import Invariant, SimulatedNode, VoterRecord


class OwnEpochBeforeVoters(Invariant):
    """When a leader writes a voter set, the last committed record is of its own epoch."""

    def voters_written(self, node: SimulatedNode, record: VoterRecord, committed_end: int) -> None:
        """Check the last committed record, perhaps in a snapshot; the first batch of a leader changes no voters."""
        ledger = self.facts.ledger(node)
        last = ledger.at(committed_end - 1)
        last_epoch = last.epoch if last is not None else ledger.begin.epoch
        epoch = record.entry.epoch
        if not record.is_opening and last_epoch != epoch:
            seen = f"leader {node.node_id} of epoch {epoch} writes a voter set at {record.offset}"
            raise self.violated(f"{seen}, nothing of its epoch is committed: {committed_end} is")
