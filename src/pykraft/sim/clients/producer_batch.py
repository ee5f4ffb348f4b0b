"""Encodes a batch of an idempotent producer: KRaft's batch of values, with the producer's numbers in its header.

Source: KIP-98 §Message format; `pykraft.protocol.batch` has the layout.
"""

from __future__ import annotations

from collections.abc import Sequence

from pykraft.protocol.batch import number_batch
from pykraft.protocol.records import encode_batch
from pykraft.types import Epoch, Offset


def producer_batch(
    values: Sequence[bytes], *, producer_id: int, producer_epoch: int, base_sequence: int, timestamp_ms: int
) -> bytes:
    """The bytes of one batch as a producer sends them: at offset 0, without a leader epoch."""
    batch = bytearray(encode_batch(values, base_offset=Offset(0), epoch=Epoch(0), timestamp_ms=timestamp_ms).data)
    number_batch(batch, producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=base_sequence)
    return bytes(batch)
