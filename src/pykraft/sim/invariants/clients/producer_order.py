"""The committed batches of an idempotent producer follow each other without a gap and without a repeat.

This holds for the log alone, whatever the producers believe: epochs of one producer id ascend, each begins with
sequence 0, and each batch begins where the one before it ended.

Source: KIP-98 §Idempotent producer guarantees; KIP-360 (a higher epoch begins at 0); Kafka's ``ProducerAppendInfo``.
"""

from __future__ import annotations

from collections.abc import Sequence

from pykraft.protocol.records import read_header
from pykraft.sim.invariants.invariant import CommittedBatch, Invariant, SimulatedNode


class ProducersKeepOrder(Invariant):
    """Committed batches of a producer id have ascending epochs, and in each of them sequences from 0 on, each once."""

    def _begin(self) -> None:
        self._end_offset = 0
        self._next: dict[int, tuple[int, int]] = {}
        """By producer id: its epoch, and the next sequence in it."""

    def delivered(self, _node: SimulatedNode, batches: Sequence[CommittedBatch]) -> None:
        """Check each batch when it is first delivered; the first deliveries come in order."""
        for batch in batches:
            if batch.base_offset < self._end_offset:
                continue
            self._end_offset = batch.end_offset
            header = read_header(batch.data)
            if header.producer_id < 0:
                continue
            epoch, expected = self._next.get(header.producer_id, (header.producer_epoch, 0))
            if header.producer_epoch > epoch:
                epoch, expected = header.producer_epoch, 0
            if (header.producer_epoch, header.base_sequence) != (epoch, expected):
                found = f"sequence {header.base_sequence} of epoch {header.producer_epoch}"
                seen = f"producer {header.producer_id} has {found} at offset {header.base_offset}"
                raise self.violated(f"{seen}; the next one is {expected} of epoch {epoch}")
            self._next[header.producer_id] = epoch, expected + header.records_count
