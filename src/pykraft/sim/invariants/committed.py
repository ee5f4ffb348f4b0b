"""Every listener of every node is given the same committed records, each once and in order.

Source: Raft paper §5.4.3 (State Machine Safety); Kafka ``RaftEventSimulationTest`` (ConsistentCommittedData).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pykraft.protocol.records import decode_values, read_header
from pykraft.sim.invariants.invariant import Invariant

if TYPE_CHECKING:
    from pykraft.host.delivery import CommittedBatch
    from pykraft.sim.node import Node


class CommittedOnce(Invariant):
    """The first delivery of an offset says what is committed there; all others must agree."""

    def __init__(self) -> None:
        self._batches: dict[int, tuple[int, int, bytes]] = {}
        self._next: dict[int, int] = {}

    def started(self, node: Node) -> None:
        """A new process has new listeners: they begin at 0."""
        self._next[node.node_id] = 0

    def delivered(self, node: Node, batches: Sequence[CommittedBatch]) -> None:
        """Compare with the first delivery of each batch."""
        for batch in batches:
            expected = self._next[node.node_id]
            if batch.base_offset != expected:
                raise self.violated(f"node {node.node_id} was given offset {batch.base_offset}, {expected} is next")
            self._next[node.node_id] = batch.end_offset
            found = (batch.end_offset, batch.epoch, bytes(batch.data))
            known = self._batches.setdefault(batch.base_offset, found)
            if known != found:
                seen = f"node {node.node_id} has another batch of epoch {batch.epoch} at offset {batch.base_offset}"
                raise self.violated(f"{seen} than was committed there in epoch {known[1]}")

    def values_by_offset(self) -> dict[int, bytes]:
        """Every committed value of the application by its offset, for the workload's own check."""
        values: dict[int, bytes] = {}
        for base_offset, (_, _, data) in self._batches.items():
            if not read_header(data).is_control:
                values.update(enumerate(decode_values(data), start=base_offset))
        return values
