"""Voters are in the log at kraft.version 1 only.

At level 0 some node may be too old to read them, and would count other majorities than the rest.

Source: KIP-853 §kraft.version, KAFKA-16538; Kafka ``KRaftVersion.isReconfigSupported``.
"""

from __future__ import annotations

from pykraft.sim.facts.electorate import VoterRecord
from pykraft.sim.invariants.invariant import Invariant
from pykraft.sim.machine.node import Node


class LevelBeforeVoters(Invariant):
    """A voter set is written into a log that says level 1, in the same batch or before."""

    def voters_written(self, node: Node, record: VoterRecord, committed_end: int) -> None:
        """The first set in a log brings the level with it."""
        del committed_end
        is_first = self.facts.members.record_of(node) is None
        if is_first and not record.level:
            seen = f"leader {node.node_id} of epoch {record.entry.epoch} writes a voter set at {record.offset}"
            raise self.violated(f"{seen}, its log knows no kraft.version")
