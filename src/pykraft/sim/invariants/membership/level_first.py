"""The log contains voters only at kraft.version 1.

At level 0 some node may be too old to read them, and would count majorities by other voters.

Source: KIP-853 §kraft.version, KAFKA-16538; Kafka ``KRaftVersion.isReconfigSupported``.
"""

from __future__ import annotations

from pykraft.sim.invariants.invariant import Invariant, SimulatedNode, VoterRecord


class LevelBeforeVoters(Invariant):
    """A voter set follows level 1 in the log, in the same batch or before it."""

    def voters_written(self, node: SimulatedNode, record: VoterRecord, _committed_end: int) -> None:
        """The first voter set in a log must come with the level."""
        is_first = self.facts.members.record_of(node) is None
        if is_first and not record.level:
            seen = f"leader {node.node_id} of epoch {record.entry.epoch} writes a voter set at {record.offset}"
            raise self.violated(f"{seen}, its log knows no kraft.version")
