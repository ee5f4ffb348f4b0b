"""Converts whole batches to Arrow rows of their records, in bulk.

numpy makes the columns of a row group: fields that all records of a batch share are repeated, and the values of KRaft's
batches with values of one size are found and copied together (`pykraft.spark.data_source.bulk`).
All other batches go through the protocol's own decoders: values of several sizes, control records, and batches of other
clients, whose records have their own times, keys and offsets.

Only wanted columns are made. A query that wants none that is in the records does not read them: the CRC of each batch
is checked, but malformed records under a valid CRC are not noticed.

A damaged batch is an error with its position, or, if the caller tolerates damage, one row that reports it.

Invariant: a row group holds at most `ROWS_MAX` rows and `BATCHES_SIZE_BYTES_MAX` of batches, unless a single batch
holds more, and a compressed batch has a row group of its own. So memory is bounded whatever a file contains.

Source: KIP-98; Kafka ``DefaultRecordBatch``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa

from pykraft.errors import CorruptionError, ProtocolError
from pykraft.protocol.batch import BatchHeader, open_batch
from pykraft.protocol.compression import Compression
from pykraft.protocol.control import TABLES, ControlType, control_type
from pykraft.protocol.records import Record, decode_records, decode_values
from pykraft.spark.arrow_columns import array_column, bytes_column, text_column
from pykraft.spark.data_source.bulk import find_values, gather_values
from pykraft.spark.data_source.metadata_columns import METADATA_COLUMNS, metadata_columns
from pykraft.spark.data_source.row_location import (
    DamagedBytes,
    constant,
    damage_row,
    damaged,
    location_columns,
    sound_batches,
)
from pykraft.spark.data_source.selection import EVERY_RECORD, Selection
from pykraft.spark.data_source.splits import OFFSET_MIN, Batches, Split
from pykraft.spark.data_source.walk import OFFSET_MAX
from pykraft.types import Buffer

ROWS_MAX = 65_536
BATCHES_SIZE_BYTES_MAX = 16 * 1024 * 1024
MICROSECONDS_PER_MS = 1_000
FROM_VALUES = ("value", *METADATA_COLUMNS)
FROM_RECORDS = ("timestamp", "control_type", "key", *FROM_VALUES)
"""Columns for which records are read; the others are in the headers of batches."""
TIMESTAMP_MS_MAX = (2**63 - 1) // MICROSECONDS_PER_MS
"""The largest time that a column of microseconds can hold."""


def records_of(
    split: Split,
    data: Buffer,
    *,
    tolerant: bool = False,
    batches: Batches | None = None,
    selection: Selection = EVERY_RECORD,
) -> Iterator[pa.RecordBatch]:
    """The wanted records of a split, CRC checked. ``data`` are the bytes of the split, ``batches`` as `sound_batches`.

    Errors: CorruptionError with file, position and what was found; if ``tolerant``, a row reports the damage instead.
    """
    for group in _groups(sound_batches(split, data, tolerant=tolerant, batches=batches), selection):
        if isinstance(group, DamagedBytes):
            yield damage_row(split, group, selection.schema)
            continue
        try:
            yield _Rows(split, data, group, selection).to_arrow()
        except CorruptionError:
            if not tolerant:
                raise
            yield from _one_by_one(split, data, group, selection)


def _one_by_one(split: Split, data: Buffer, batches: Batches, selection: Selection) -> Iterator[pa.RecordBatch]:
    """The batches of a group that can be decoded, and a row for each of the others."""
    for position, header in batches:
        try:
            yield _Rows(split, data, [(position, header)], selection).to_arrow()
        except CorruptionError as error:
            damage = DamagedBytes(
                position=position, size_bytes=header.size_bytes, offset=header.base_offset, text=str(error)
            )
            yield damage_row(split, damage, selection.schema)


def _groups(
    batches: Iterator[tuple[int, BatchHeader] | DamagedBytes], selection: Selection
) -> Iterator[Batches | DamagedBytes]:
    """Split batches into row groups; batches without wanted records are in none, and damage is a group of its own."""
    group: list[tuple[int, BatchHeader]] = []
    rows_count = size_bytes = 0
    for one in batches:
        if isinstance(one, DamagedBytes):
            if group:
                yield group
            yield one
            group, rows_count, size_bytes = [], 0, 0
            continue
        position, header = one
        if header.records_count == 0 or not selection.wants(header):
            continue
        is_alone = header.compression != Compression.NONE
        rows_count += header.records_count
        size_bytes += header.size_bytes
        if group and (is_alone or rows_count > ROWS_MAX or size_bytes > BATCHES_SIZE_BYTES_MAX):
            yield group
            group, rows_count, size_bytes = [], header.records_count, header.size_bytes
        group.append((position, header))
        if is_alone:
            yield group
            group, rows_count, size_bytes = [], 0, 0
    if group:
        yield group


class _Rows:
    """The columns of one row group: first from the batch headers, then corrected from the records."""

    def __init__(self, split: Split, data: Buffer, batches: Batches, selection: Selection) -> None:
        """Errors: CorruptionError for malformed records that a wanted column needs."""
        _believe_counts(split, data, batches)
        self._split = split
        self._data = data
        self._batches = batches
        self._schema = selection.schema
        self._headers = headers = [header for _, header in batches]
        self._counts = np.array([header.records_count for header in headers], dtype=np.int64)
        self._first_rows = np.cumsum(self._counts) - self._counts
        self._count = int(self._counts.sum())
        bases = np.array([header.base_offset for header in headers], dtype=np.int64)
        self._offsets = np.arange(self._count) + np.repeat(bases - self._first_rows, self._counts)
        self._timestamps = np.repeat([_timestamp_ms(header) for header in headers], self._counts)
        self._control_types: dict[int, str] = {}
        self._keys: dict[int, bytes] = {}
        self._values: pa.BinaryArray | None = None
        if selection.has(*FROM_RECORDS):
            self._read_records(with_values=selection.has(*FROM_VALUES))
        else:
            self._read_compacted()
        if selection.has("timestamp"):
            self._check_timestamps()

    def _read_records(self, *, with_values: bool) -> None:
        found = find_values(self._data, self._batches)
        others: list[bytes | None] = []
        for index in np.flatnonzero(~found.are_found).tolist():
            others += self._read(index)
        if with_values:
            self._values = gather_values(self._data, found, np.repeat(found.are_found, self._counts), others)

    def _read_compacted(self) -> None:
        """Correct the offsets of batches of which a cleaner removed records: only the records have theirs."""
        for index, header in enumerate(self._headers):
            if header.records_count != header.last_offset_delta + 1:
                self._read(index)

    def _read(self, index: int) -> Sequence[bytes | None]:
        """The values of one batch; fields that its records override go into the columns. Errors: CorruptionError."""
        position, header = self._batches[index]
        batch = self._data[position : position + header.size_bytes]
        if not header.is_control and (values := _values_of_kraft(batch)) is not None:
            return values
        try:
            records = decode_records(batch, verify_crc=False)
            for row, record in enumerate(records, start=int(self._first_rows[index])):
                self._offsets[row] = record.offset
                self._timestamps[row] = record.timestamp_ms
                if record.key is not None:
                    self._keys[row] = record.key
                if header.is_control:
                    self._control_types[row] = _control_type(record)
        except ProtocolError as error:
            raise damaged(self._split, position, str(error)) from error
        return [record.value for record in records]

    def _check_timestamps(self) -> None:
        if self._timestamps.min() < -TIMESTAMP_MS_MAX or self._timestamps.max() > TIMESTAMP_MS_MAX:
            row = int(np.argmax(np.abs(self._timestamps.astype(np.float64))))
            batch = int(np.searchsorted(np.cumsum(self._counts), row, side="right"))
            raise damaged(self._split, self._batches[batch][0], f"one of the time {self._timestamps[row]} ms")

    def to_arrow(self) -> pa.RecordBatch:
        """The wanted columns of the rows at the wanted offsets."""
        columns = [self._column(field) for field in self._schema]
        rows = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        split = self._split
        if (split.start_offset, split.end_offset) == (OFFSET_MIN, OFFSET_MAX):
            return rows
        # Rows outside of the wanted offsets are at the start and at the end.
        begin = int(np.searchsorted(self._offsets, split.start_offset))
        return rows.slice(begin, max(0, int(np.searchsorted(self._offsets, split.end_offset)) - begin))

    def _column(self, field: pa.Field) -> pa.Array:
        headers = self._headers
        match field.name:
            case "batch_size":
                return self._repeated([header.size_bytes for header in headers], pa.int32())
            case "offset":
                return array_column(self._offsets, pa.int64())
            case "epoch":
                return self._repeated([header.epoch for header in headers], pa.int32())
            case "timestamp":
                return array_column(self._timestamps * MICROSECONDS_PER_MS, field.type)
            case "timestampType":
                return self._repeated([int(header.is_log_append_time) for header in headers], pa.int32())
            case "is_control":
                return self._repeated([header.is_control for header in headers], pa.bool_())
            case "control_type":
                types = self._control_types
                return text_column([types.get(row) for row in range(self._count)]) if types else self._nulls(field)
            case "key":
                keys = self._keys
                return bytes_column([keys.get(row) for row in range(self._count)]) if keys else self._nulls(field)
            case "value":
                assert self._values is not None
                return self._values
            case "corrupt":
                return constant(None, self._count)
            case name if name in METADATA_COLUMNS:
                return self._metadata[name]
        return self._location[field.name]

    @cached_property
    def _metadata(self) -> dict[str, pa.Array]:
        assert self._values is not None
        return metadata_columns(self._values)

    @cached_property
    def _location(self) -> dict[str, pa.Array]:
        positions = self._split.position + np.array([position for position, _ in self._batches], dtype=np.int64)
        return location_columns(self._split, np.repeat(positions, self._counts))

    def _nulls(self, field: pa.Field) -> pa.Array:
        return pa.nulls(self._count, field.type)

    def _repeated(self, values: Sequence[int], kind: pa.DataType) -> pa.Array:
        """A column of the batches' values."""
        dtype = np.bool_ if kind == pa.bool_() else np.int32
        return array_column(np.repeat(np.array(values, dtype=dtype), self._counts), kind)


def _believe_counts(split: Split, data: Buffer, batches: Batches) -> None:
    """Decompress batches before allocating for as many records as their headers claim. Errors: CorruptionError."""
    for position, header in batches:
        if header.compression != Compression.NONE:
            try:
                open_batch(data[position : position + header.size_bytes], verify_crc=False)
            except ProtocolError as error:
                raise damaged(split, position, str(error)) from error


def _timestamp_ms(header: BatchHeader) -> int:
    """The time of records without a time of their own."""
    return header.max_timestamp if header.is_log_append_time else header.base_timestamp


def _control_type(record: Record) -> str:
    """Kafka's name of a control record; the number if a newer Kafka wrote it. Errors: ProtocolError."""
    number = control_type(record.key)
    return TABLES[ControlType(number)].name if number in TABLES else f"type {number}"


def _values_of_kraft(batch: Buffer) -> list[bytes] | None:
    """The values of a batch in KRaft's form; None for another client's batch, or a damaged one."""
    try:
        return decode_values(batch, verify_crc=False)
    except ProtocolError:
        return None
