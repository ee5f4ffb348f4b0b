"""Converts whole batches to Arrow rows, one per batch, as they are on disk.

Invariant: ``content`` holds the bytes of the batch, appended without one copy per batch; records are not decoded. A
batch is wanted if one of its records is.

Source: KIP-98; Kafka ``DefaultRecordBatch``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from pykraft.protocol.batch import BatchHeader
from pykraft.spark.data_source.decode import MICROSECONDS_PER_MS, TIMESTAMP_MS_MAX
from pykraft.spark.data_source.row_location import DamagedBytes, damage_row, damaged, location_columns, sound_batches
from pykraft.spark.data_source.schema import arrow_schema
from pykraft.spark.data_source.splits import Batches, Split

ROWS_MAX = 4_096


def batches_of(
    split: Split, data: bytes, *, tolerant: bool = False, batches: Batches | None = None
) -> Iterator[pa.RecordBatch]:
    """The wanted batches of a split, CRC checked. ``data`` are the bytes of the split, ``batches`` as `sound_batches`.

    Errors: CorruptionError with file, position and what was found; if ``tolerant``, a row reports the damage instead.
    """
    group: list[tuple[int, BatchHeader]] = []
    for one in sound_batches(split, data, tolerant=tolerant, batches=batches):
        is_damage = isinstance(one, DamagedBytes)
        if group and (is_damage or len(group) == ROWS_MAX):
            yield _rows(split, data, group)
            group = []
        if isinstance(one, DamagedBytes):
            yield damage_row(split, one, "batches")
        elif one[1].end_offset > split.start_offset and one[1].base_offset < split.end_offset:
            group.append(one)
    if group:
        yield _rows(split, data, group)


def _rows(split: Split, data: bytes, batches: Sequence[tuple[int, BatchHeader]]) -> pa.RecordBatch:
    """Batches that follow each other in ``data``."""
    schema = arrow_schema("batches")
    headers = [header for _, header in batches]
    positions = np.array([position for position, _ in batches], dtype=np.int64)
    edges = pa.array([*positions.tolist(), batches[-1][0] + headers[-1].size_bytes], pa.int32())
    columns = [
        *location_columns(split, positions + split.position),
        pa.array([header.size_bytes for header in headers], pa.int32()),
        pa.array([header.base_offset for header in headers], pa.int64()),
        pa.array([header.last_offset for header in headers], pa.int64()),
        pa.array([header.epoch for header in headers], pa.int32()),
        _times(split, batches, [header.base_timestamp for header in headers]),
        _times(split, batches, [header.max_timestamp for header in headers]),
        pa.array([header.records_count for header in headers], pa.int32()),
        pa.array([header.is_control for header in headers], pa.bool_()),
        pa.array([header.compression.name.lower() for header in headers], pa.string()),
        pa.array([header.crc for header in headers], pa.int64()),
        pa.BinaryArray.from_buffers(pa.binary(), len(headers), [None, edges.buffers()[1], pa.py_buffer(data)]),
        pa.nulls(len(headers), pa.string()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _times(split: Split, batches: Sequence[tuple[int, BatchHeader]], times_ms: Sequence[int]) -> pa.Array:
    """A column of times. Errors: CorruptionError for a time that a column of microseconds cannot hold."""
    for (position, _), time_ms in zip(batches, times_ms, strict=True):
        if abs(time_ms) > TIMESTAMP_MS_MAX:
            raise damaged(split, position, f"one of the time {time_ms} ms")
    micros = np.array(times_ms, dtype=np.int64) * MICROSECONDS_PER_MS
    return pa.array(micros).cast(arrow_schema("batches").field("base_timestamp").type)
