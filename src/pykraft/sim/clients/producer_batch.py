"""Encodes a batch of an idempotent producer: KRaft's batch of values, with the producer's numbers in its header.

Source: KIP-98 §Message format; `pykraft.protocol.batch` has the layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final

from crc32c import crc32c

from pykraft.protocol.records import encode_batch
from pykraft.types import Epoch, Offset

_CRC: Final = Struct(">I")
_CRC_POSITION: Final = 17
_PRODUCER: Final = Struct(">qhi")
_PRODUCER_POSITION: Final = 43


def producer_batch(
    values: Sequence[bytes], *, producer_id: int, producer_epoch: int, base_sequence: int, timestamp_ms: int
) -> bytes:
    """The bytes of one batch as a producer sends them: at offset 0, without a leader epoch."""
    encoded = encode_batch(values, base_offset=Offset(0), epoch=Epoch(0), timestamp_ms=timestamp_ms)
    batch = bytearray(encoded.data)
    _PRODUCER.pack_into(batch, _PRODUCER_POSITION, producer_id, producer_epoch, base_sequence)
    _CRC.pack_into(batch, _CRC_POSITION, crc32c(bytes(batch[_CRC_POSITION + _CRC.size :])))
    return bytes(batch)
