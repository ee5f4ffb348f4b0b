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
from pykraft.spark.arrow_columns import array_column, number_column, text_column
from pykraft.spark.data_source.decode import MICROSECONDS_PER_MS, TIMESTAMP_MS_MAX
from pykraft.spark.data_source.row_location import (
    DamagedBytes,
    constant,
    damage_row,
    damaged,
    location_columns,
    sound_batches,
)
from pykraft.spark.data_source.schema import arrow_schema
from pykraft.spark.data_source.selection import EVERY_BATCH, Selection
from pykraft.spark.data_source.splits import Batches, Split
from pykraft.types import Buffer

ROWS_MAX = 4_096


def batches_of(
    split: Split,
    data: Buffer,
    *,
    tolerant: bool = False,
    batches: Batches | None = None,
    selection: Selection = EVERY_BATCH,
) -> Iterator[pa.RecordBatch]:
    """The wanted batches of a split, CRC checked. ``data`` are the bytes of the split, ``batches`` as `sound_batches`.

    Errors: CorruptionError with file, position and what was found; if ``tolerant``, a row reports the damage instead.
    """
    group: list[tuple[int, BatchHeader]] = []
    for one in sound_batches(split, data, tolerant=tolerant, batches=batches):
        is_damage = isinstance(one, DamagedBytes)
        if group and (is_damage or len(group) == ROWS_MAX):
            yield _rows(split, data, group, selection)
            group = []
        if isinstance(one, DamagedBytes):
            yield damage_row(split, one, selection.schema)
            continue
        _, header = one
        is_within = header.end_offset > split.start_offset and header.base_offset < split.end_offset
        if is_within and selection.wants(header):
            group.append(one)
        elif group:
            # The batches of a group follow each other in the bytes.
            yield _rows(split, data, group, selection)
            group = []
    if group:
        yield _rows(split, data, group, selection)


def _rows(
    split: Split, data: Buffer, batches: Sequence[tuple[int, BatchHeader]], selection: Selection
) -> pa.RecordBatch:
    """Batches that follow each other in ``data``."""
    headers = [header for _, header in batches]
    positions = np.array([position for position, _ in batches], dtype=np.int64)
    edges = number_column([*positions.tolist(), batches[-1][0] + headers[-1].size_bytes], pa.int32())
    columns = location_columns(split, positions + split.position) | {
        "batch_size": number_column([header.size_bytes for header in headers], pa.int32()),
        "base_offset": number_column([header.base_offset for header in headers], pa.int64()),
        "last_offset": number_column([header.last_offset for header in headers], pa.int64()),
        "epoch": number_column([header.epoch for header in headers], pa.int32()),
        "base_timestamp": _times(split, batches, [header.base_timestamp for header in headers]),
        "max_timestamp": _times(split, batches, [header.max_timestamp for header in headers]),
        "records_count": number_column([header.records_count for header in headers], pa.int32()),
        "is_control": array_column(np.array([header.is_control for header in headers]), pa.bool_()),
        "compression": text_column([header.compression.name.lower() for header in headers]),
        "crc": number_column([header.crc for header in headers], pa.int64()),
        "content": pa.BinaryArray.from_buffers(
            pa.binary(), len(headers), [None, edges.buffers()[1], pa.py_buffer(data)]
        ),
        "corrupt": constant(None, len(headers)),
    }
    return pa.RecordBatch.from_arrays([columns[field.name] for field in selection.schema], schema=selection.schema)


def _times(split: Split, batches: Sequence[tuple[int, BatchHeader]], times_ms: Sequence[int]) -> pa.Array:
    """A column of times. Errors: CorruptionError for a time that a column of microseconds cannot hold."""
    for (position, _), time_ms in zip(batches, times_ms, strict=True):
        if abs(time_ms) > TIMESTAMP_MS_MAX:
            raise damaged(split, position, f"one of the time {time_ms} ms")
    micros = np.array(times_ms, dtype=np.int64) * MICROSECONDS_PER_MS
    return array_column(micros, arrow_schema("batches").field("base_timestamp").type)
