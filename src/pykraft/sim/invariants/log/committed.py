"""Every listener of every node gets the same committed batches.

Source: Raft paper §5.4.3 (State Machine Safety); Kafka ``RaftEventSimulationTest`` (ConsistentCommittedData).
"""

from __future__ import annotations

from collections.abc import Sequence

from pykraft.sim.invariants.invariant import CommittedBatch, Invariant, SimulatedNode


class CommittedAlike(Invariant):
    """The first delivery of an offset says what is committed there; all others must agree."""

    def _begin(self) -> None:
        self._batches: dict[int, tuple[int, int, bytes]] = {}

    def delivered(self, node: SimulatedNode, batches: Sequence[CommittedBatch]) -> None:
        """Compare each batch with its first delivery."""
        for batch in batches:
            found = (batch.end_offset, batch.epoch, bytes(batch.data))
            known = self._batches.setdefault(batch.base_offset, found)
            if known != found:
                seen = (
                    f"node {node.node_id} is given another batch of epoch {batch.epoch} at offset {batch.base_offset}"
                )
                raise self.violated(f"{seen} than was committed there in epoch {known[1]}")
