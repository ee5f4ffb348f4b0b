"""Reads a Spark task's split in chunks and returns its rows: of records, or whole batches as they are on disk.

Invariant: no state is kept between partitions, and one chunk is in memory at a time. ``content`` holds the bytes of a
batch, appended without one copy per batch; a batch is wanted if one of its records is.

Source: KIP-98; PySpark ``DataSourceReader.read``.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from pykraft.errors import CorruptionError
from pykraft.protocol.compression import Compression
from pykraft.spark.arrow_columns import array_column, text_column
from pykraft.spark.data_source import decode
from pykraft.spark.data_source.headers import Headers, headers_of
from pykraft.spark.data_source.options import SourceOptions
from pykraft.spark.data_source.selection import EVERY_BATCH, Selection, arrow_schema
from pykraft.spark.data_source.splits import Split, chunks_with, judged
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
    for part in decode.sound_batches(split, data, tolerant=tolerant, headers=headers, are_checked=are_checked):
        if isinstance(part, decode.DamagedBytes):
            yield decode.damage_row(split, part, selection.schema)
            continue
        are_within = (part.last_offsets >= split.start_offset) & (part.column("base_offset") < split.end_offset)
        for group in _neighbors(part, are_within & selection.wanted(part)):
            for begin in range(0, len(group), ROWS_MAX):
                yield _rows(split, data, group.at(slice(begin, begin + ROWS_MAX)), selection)


def _neighbors(headers: Headers, are_wanted: np.ndarray) -> Iterator[Headers]:
    edges = np.flatnonzero(np.diff(are_wanted, prepend=False, append=False))
    for begin, end in edges.reshape(-1, 2).tolist():
        yield headers.at(slice(begin, end))


def _rows(split: Split, data: Buffer, headers: Headers, selection: Selection) -> pa.RecordBatch:
    count, positions, sizes = len(headers), headers.positions, headers.sizes_bytes
    edges = np.append(positions, positions[-1] + sizes[-1]).astype(np.int32)
    codecs = [Compression(codec).name.lower() for codec in headers.codecs.tolist()]
    columns = decode.location_columns(split, positions + split.position) | {
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
        "corrupt": decode.constant(None, count),
    }
    return pa.RecordBatch.from_arrays([columns[field.name] for field in selection.schema], schema=selection.schema)


def _times(split: Split, positions: np.ndarray, times_ms: np.ndarray) -> pa.Array:
    """A column of times. Errors: CorruptionError for a time that a column of microseconds cannot hold."""
    beyond = np.flatnonzero((times_ms < -decode.TIMESTAMP_MS_MAX) | (times_ms > decode.TIMESTAMP_MS_MAX))
    if len(beyond):
        raise decode.damaged(split, int(positions[beyond[0]]), f"one of the time {times_ms[beyond[0]]} ms")
    return array_column(times_ms * decode.MICROSECONDS_PER_MS, arrow_schema("batches").field("base_timestamp").type)


@dataclass(frozen=True)
class SplitPartition(InputPartition):
    """The chunk of a log that one task reads."""

    split: Split


def read_split(partition: InputPartition, options: SourceOptions, selection: Selection) -> Iterator[pa.RecordBatch]:
    """The wanted rows of one split. Errors: CorruptionError, unless damage is to be marked; StorageError."""
    if not isinstance(partition, SplitPartition):
        return  # without partitions, Spark reads an empty placeholder
    split = partition.split
    if split.damage is not None:
        size_bytes = split.end_position - split.position
        damage = decode.DamagedBytes(position=0, size_bytes=size_bytes, offset=split.start_offset, text=split.damage)
        yield decode.damage_row(split, damage, selection.schema)
        return
    rows_of = batches_of if options.rows == "batches" else decode.records_of
    for chunk in chunks_with(headers_of, split):
        try:
            yield from rows_of(
                chunk.split, chunk.data, tolerant=options.tolerant, headers=chunk.headers, selection=selection
            )
        except CorruptionError as problem:
            raise judged(split, problem) from problem
