"""Writes the logs that are read: records of one size, a fixed number in a batch."""

from __future__ import annotations

import os
from pathlib import Path

from pykraft.log.paths import LOG, segment_file
from pykraft.protocol.records import encode_batch
from pykraft.types import Epoch, Offset

SEGMENT_SIZE_BYTES = 1 << 30
POOL_SIZE_BYTES = 1 << 20


def write_log(folder: Path, records: int, size_bytes: int, per_batch: int) -> int:
    """Write a partition directory with these records; returns its size in bytes."""
    pool = os.urandom(POOL_SIZE_BYTES) + bytes(size_bytes)
    written = 0
    segment = None
    for base_offset in range(0, records, per_batch):
        if segment is None or segment.tell() > SEGMENT_SIZE_BYTES:
            if segment is not None:
                segment.close()
            segment = (folder / segment_file(Offset(base_offset), LOG)).open("wb")
        count = min(per_batch, records - base_offset)
        starts = ((base_offset + index) * 64 % POOL_SIZE_BYTES for index in range(count))
        values = [pool[start : start + size_bytes] for start in starts]
        data = encode_batch(values, base_offset=Offset(base_offset), epoch=Epoch(1), timestamp_ms=base_offset).data
        written += segment.write(data)
    if segment is not None:
        segment.close()
    return written
