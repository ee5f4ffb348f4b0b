"""Converts whole batches to Arrow rows, one per batch, as they are on disk.

Invariant: ``content`` holds the bytes of the batch, appended without one copy per batch; records are not decoded. A
batch is wanted if one of its records is.

Source: KIP-98; Kafka ``DefaultRecordBatch``.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from pykraft.protocol.compression import Compression
from pykraft.spark.arrow_columns import array_column, text_column
from pykraft.spark.data_source.decode import MICROSECONDS_PER_MS, TIMESTAMP_MS_MAX
from pykraft.spark.data_source.headers.columns import Headers
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
from pykraft.spark.data_source.splits import Split
from pykraft.types import Buffer

ROWS_MAX = 4_096


def batches_of(
    split: Split,
    data: Buffer,
    *,
    tolerant: bool = False,
    headers: Headers | None = None,
    are_checked: bool = False,
    selection: Selection = EVERY_BATCH,
) -> Iterator[pa.RecordBatch]:
    """The wanted batches of a split, CRC checked. ``data`` are its bytes; the rest is as in `sound_batches`.

    Errors: CorruptionError with file, position and what was found; if ``tolerant``, a row reports the damage instead.
    """
    for part in sound_batches(split, data, tolerant=tolerant, headers=headers, are_checked=are_checked):
        if isinstance(part, DamagedBytes):
            yield damage_row(split, part, selection.schema)
            continue
        are_within = (part.last_offsets >= split.start_offset) & (part.column("base_offset") < split.end_offset)
        for group in _neighbors(part, are_within & selection.wanted(part)):
            for begin in range(0, len(group), ROWS_MAX):
                yield _rows(split, data, group.at(slice(begin, begin + ROWS_MAX)), selection)


def _neighbors(headers: Headers, are_wanted: np.ndarray) -> Iterator[Headers]:
    """The wanted batches, as many together as follow each other in the bytes."""
    edges = np.flatnonzero(np.diff(are_wanted, prepend=False, append=False))
    for begin, end in edges.reshape(-1, 2).tolist():
        yield headers.at(slice(begin, end))


def _rows(split: Split, data: Buffer, headers: Headers, selection: Selection) -> pa.RecordBatch:
    """Batches that follow each other in ``data``."""
    count, positions, sizes = len(headers), headers.positions, headers.sizes_bytes
    edges = np.append(positions, positions[-1] + sizes[-1]).astype(np.int32)
    codecs = [Compression(codec).name.lower() for codec in headers.codecs.tolist()]
    columns = location_columns(split, positions + split.position) | {
        "batch_size": array_column(sizes.astype(np.int32), pa.int32()),
        "base_offset": array_column(headers.column("base_offset"), pa.int64()),
        "last_offset": array_column(headers.last_offsets, pa.int64()),
        "epoch": array_column(headers.column("epoch").astype(np.int32), pa.int32()),
        "base_timestamp": _times(split, positions, headers.column("base_timestamp")),
        "max_timestamp": _times(split, positions, headers.column("max_timestamp")),
        "records_count": array_column(headers.counts.astype(np.int32), pa.int32()),
        "is_control": array_column(headers.are_control, pa.bool_()),
        "compression": text_column(codecs),
        "crc": array_column(headers.column("crc"), pa.int64()),
        "content": pa.BinaryArray.from_buffers(pa.binary(), count, [None, pa.py_buffer(edges), pa.py_buffer(data)]),
        "corrupt": constant(None, count),
    }
    return pa.RecordBatch.from_arrays([columns[field.name] for field in selection.schema], schema=selection.schema)


def _times(split: Split, positions: np.ndarray, times_ms: np.ndarray) -> pa.Array:
    """A column of times. Errors: CorruptionError for a time that a column of microseconds cannot hold."""
    beyond = np.flatnonzero((times_ms < -TIMESTAMP_MS_MAX) | (times_ms > TIMESTAMP_MS_MAX))
    if len(beyond):
        raise damaged(split, int(positions[beyond[0]]), f"one of the time {times_ms[beyond[0]]} ms")
    return array_column(times_ms * MICROSECONDS_PER_MS, arrow_schema("batches").field("base_timestamp").type)
