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
from pykraft.protocol.batch import open_batch
from pykraft.protocol.compression import Compression
from pykraft.protocol.control import TABLES, ControlType, control_type
from pykraft.protocol.records import Record, decode_records, decode_values
from pykraft.spark.arrow_columns import array_column, bytes_column, text_column
from pykraft.spark.data_source.bulk import find_values, gather_values
from pykraft.spark.data_source.headers.columns import Headers
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
from pykraft.spark.data_source.splits import OFFSET_MIN, Split
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
    headers: Headers | None = None,
    are_checked: bool = False,
    selection: Selection = EVERY_RECORD,
) -> Iterator[pa.RecordBatch]:
    """The wanted records of a split, CRC checked. ``data`` are its bytes; the rest is as in `sound_batches`.

    Errors: CorruptionError with file, position and what was found; if ``tolerant``, a row reports the damage instead.
    """
    for part in sound_batches(split, data, tolerant=tolerant, headers=headers, are_checked=are_checked):
        if isinstance(part, DamagedBytes):
            yield damage_row(split, part, selection.schema)
            continue
        for group in _groups(part.at((part.counts > 0) & selection.wanted(part))):
            try:
                yield _Rows(split, data, group, selection).to_arrow()
            except CorruptionError:
                if not tolerant:
                    raise
                yield from _one_by_one(split, data, group, selection)


def _one_by_one(split: Split, data: Buffer, headers: Headers, selection: Selection) -> Iterator[pa.RecordBatch]:
    """The batches of a group that can be decoded, and a row for each of the others."""
    for index in range(len(headers)):
        try:
            yield _Rows(split, data, headers.at(slice(index, index + 1)), selection).to_arrow()
        except CorruptionError as error:
            yield damage_row(split, DamagedBytes.batch(*headers.pair(index), error), selection.schema)


def _groups(headers: Headers) -> Iterator[Headers]:
    """Split batches into row groups."""
    rows, size_bytes = np.cumsum(headers.counts), np.cumsum(headers.sizes_bytes)
    alone = np.flatnonzero(headers.codecs != Compression.NONE)
    begin = rows_before = size_bytes_before = 0
    while begin < len(headers):
        end = min(
            int(np.searchsorted(rows, rows_before + ROWS_MAX, side="right")),
            int(np.searchsorted(size_bytes, size_bytes_before + BATCHES_SIZE_BYTES_MAX, side="right")),
        )
        following = alone[np.searchsorted(alone, begin) :][:1].tolist()
        if following:
            end = min(end, following[0])
        end = max(end, begin + 1)
        yield headers.at(slice(begin, end))
        begin, rows_before, size_bytes_before = end, int(rows[end - 1]), int(size_bytes[end - 1])


class _Rows:
    """The columns of one row group: first from the batch headers, then corrected from the records."""

    def __init__(self, split: Split, data: Buffer, headers: Headers, selection: Selection) -> None:
        """Errors: CorruptionError for malformed records that a wanted column needs."""
        _believe_counts(split, data, headers)
        self._split = split
        self._data = data
        self._schema = selection.schema
        self._headers = headers
        self._counts = headers.counts
        self._first_rows = np.cumsum(self._counts) - self._counts
        self._count = int(self._counts.sum())
        self._offsets = np.arange(self._count) + np.repeat(
            headers.column("base_offset") - self._first_rows, self._counts
        )
        self._timestamps = np.repeat(_timestamps_ms(headers), self._counts)
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
        found = find_values(self._data, self._headers)
        others: list[bytes | None] = []
        for index in np.flatnonzero(~found.are_found).tolist():
            others += self._read(index)
        if with_values:
            self._values = gather_values(self._data, found, np.repeat(found.are_found, self._counts), others)

    def _read_compacted(self) -> None:
        """Correct the offsets of batches of which a cleaner removed records: only the records have theirs."""
        for index in np.flatnonzero(self._headers.are_compacted).tolist():
            self._read(index)

    def _read(self, index: int) -> Sequence[bytes | None]:
        """The values of one batch; fields that its records override go into the columns. Errors: CorruptionError."""
        position, header = self._headers.pair(index)
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
            position = int(self._headers.positions[batch])
            raise damaged(self._split, position, f"one of the time {self._timestamps[row]} ms")

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
                return self._repeated(headers.sizes_bytes, pa.int32())
            case "offset":
                return array_column(self._offsets, pa.int64())
            case "epoch":
                return self._repeated(headers.column("epoch"), pa.int32())
            case "timestamp":
                return array_column(self._timestamps * MICROSECONDS_PER_MS, field.type)
            case "timestampType":
                return self._repeated(headers.are_log_append_time, pa.int32())
            case "is_control":
                return self._repeated(headers.are_control, pa.bool_())
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
        positions = self._split.position + self._headers.positions
        return location_columns(self._split, np.repeat(positions, self._counts))

    def _nulls(self, field: pa.Field) -> pa.Array:
        return pa.nulls(self._count, field.type)

    def _repeated(self, values: np.ndarray, kind: pa.DataType) -> pa.Array:
        """A column of the batches' values."""
        dtype = np.bool_ if kind == pa.bool_() else np.int32
        return array_column(np.repeat(values.astype(dtype), self._counts), kind)


def _believe_counts(split: Split, data: Buffer, headers: Headers) -> None:
    """Decompress batches before allocating for as many records as their headers claim. Errors: CorruptionError."""
    for index in np.flatnonzero(headers.codecs != Compression.NONE).tolist():
        position, header = headers.pair(index)
        try:
            open_batch(data[position : position + header.size_bytes], verify_crc=False)
        except ProtocolError as error:
            raise damaged(split, position, str(error)) from error


def _timestamps_ms(headers: Headers) -> np.ndarray:
    """For each batch the time of records without a time of their own."""
    return np.where(headers.are_log_append_time, headers.column("max_timestamp"), headers.column("base_timestamp"))


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
