"""Converts whole batches to Arrow rows of their records, in bulk.

numpy makes the columns of a row group: fields that all records of a batch share are repeated, and the values of KRaft's
batches with values of one size are found together (`pykraft.spark.data_source.bulk`) and copied by one Arrow ``take``.
All other batches go through the protocol's own decoders: values of several sizes, control records, and batches of other
clients, whose records have their own times, keys and offsets.

A damaged batch is an error with its position, or, if the caller tolerates damage, one row that reports it.

Invariant: a row group holds at most `ROWS_MAX` rows and `BATCHES_SIZE_BYTES_MAX` of batches, unless a single batch
holds more, and a compressed batch has a row group of its own. So memory is bounded whatever a file contains.

Source: KIP-98; Kafka ``DefaultRecordBatch``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from pykraft.errors import CorruptionError, ProtocolError
from pykraft.protocol.batch import BatchHeader, open_batch
from pykraft.protocol.compression import Compression
from pykraft.protocol.control import TABLES, ControlType, control_type
from pykraft.protocol.records import Record, decode_records, decode_values
from pykraft.spark.data_source.bulk import Values, find_values
from pykraft.spark.data_source.row_location import DamagedBytes, damage_row, damaged, location_columns, sound_batches
from pykraft.spark.data_source.schema import arrow_schema
from pykraft.spark.data_source.splits import OFFSET_MIN, Batches, Split
from pykraft.spark.data_source.walk import OFFSET_MAX

ROWS_MAX = 65_536
BATCHES_SIZE_BYTES_MAX = 16 * 1024 * 1024
MICROSECONDS_PER_MS = 1_000
TIMESTAMP_MS_MAX = (2**63 - 1) // MICROSECONDS_PER_MS
"""The largest time that a column of microseconds can hold."""


def records_of(
    split: Split, data: bytes, *, tolerant: bool = False, batches: Batches | None = None
) -> Iterator[pa.RecordBatch]:
    """The wanted records of a split, CRC checked. ``data`` are the bytes of the split, ``batches`` as `sound_batches`.

    Errors: CorruptionError with file, position and what was found; if ``tolerant``, a row reports the damage instead.
    """
    for group in _groups(sound_batches(split, data, tolerant=tolerant, batches=batches)):
        if isinstance(group, DamagedBytes):
            yield damage_row(split, group, "records")
            continue
        try:
            yield _wanted(split, _Rows(split, data, group).to_arrow())
        except CorruptionError:
            if not tolerant:
                raise
            yield from _one_by_one(split, data, group)


def _one_by_one(split: Split, data: bytes, batches: Batches) -> Iterator[pa.RecordBatch]:
    """The batches of a group that can be decoded, and a row for each of the others."""
    for position, header in batches:
        try:
            yield _wanted(split, _Rows(split, data, [(position, header)]).to_arrow())
        except CorruptionError as error:
            damage = DamagedBytes(
                position=position, size_bytes=header.size_bytes, offset=header.base_offset, text=str(error)
            )
            yield damage_row(split, damage, "records")


def _wanted(split: Split, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Drop the rows outside of the requested offsets, which are at the start and at the end."""
    if (split.start_offset, split.end_offset) == (OFFSET_MIN, OFFSET_MAX):
        return rows
    offsets = rows.column("offset").to_numpy()
    begin = int(np.searchsorted(offsets, split.start_offset))
    return rows.slice(begin, max(0, int(np.searchsorted(offsets, split.end_offset)) - begin))


def _groups(batches: Iterator[tuple[int, BatchHeader] | DamagedBytes]) -> Iterator[Batches | DamagedBytes]:
    """Split batches into row groups; batches without records are in none, and damage has a group of its own."""
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
        if header.records_count == 0:
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

    def __init__(self, split: Split, data: bytes, batches: Batches) -> None:
        """Errors: CorruptionError for malformed records."""
        _believe_counts(split, data, batches)
        headers = [header for _, header in batches]
        self._split = split
        self._positions = np.array([split.position + position for position, _ in batches], dtype=np.int64)
        self._sizes = np.array([header.size_bytes for header in headers], dtype=np.int32)
        self._epochs = np.array([header.epoch for header in headers], dtype=np.int32)
        self._are_control = np.array([header.is_control for header in headers], dtype=np.bool_)
        self._counts = np.array([header.records_count for header in headers], dtype=np.int64)
        first_rows = np.cumsum(self._counts) - self._counts
        self._count = int(self._counts.sum())
        bases = np.array([header.base_offset for header in headers], dtype=np.int64)
        self._offsets = np.arange(self._count) + np.repeat(bases - first_rows, self._counts)
        self._timestamps = np.repeat([_timestamp_ms(header) for header in headers], self._counts)
        self._control_types: dict[int, str] = {}
        self._keys: dict[int, bytes] = {}
        found = find_values(data, batches)
        others: list[bytes | None] = []
        for index in np.flatnonzero(~found.are_found).tolist():
            position, header = batches[index]
            batch = data[position : position + header.size_bytes]
            try:
                others += self._read(header, batch, int(first_rows[index]))
            except ProtocolError as error:
                raise damaged(split, position, str(error)) from error
        self._values = _gathered(data, found, np.repeat(found.are_found, self._counts), others)
        self._check_timestamps()

    def _read(self, header: BatchHeader, batch: bytes, first_row: int) -> Sequence[bytes | None]:
        """The values of one batch; fields that its records override go into the columns."""
        if not header.is_control and (values := _values_of_kraft(batch)) is not None:
            return values
        records = decode_records(batch, verify_crc=False)
        for row, record in enumerate(records, start=first_row):
            self._offsets[row] = record.offset
            self._timestamps[row] = record.timestamp_ms
            if record.key is not None:
                self._keys[row] = record.key
            if header.is_control:
                self._control_types[row] = _control_type(record)
        return [record.value for record in records]

    def _check_timestamps(self) -> None:
        if self._timestamps.min() < -TIMESTAMP_MS_MAX or self._timestamps.max() > TIMESTAMP_MS_MAX:
            row = int(np.argmax(np.abs(self._timestamps.astype(np.float64))))
            batch = int(np.searchsorted(np.cumsum(self._counts), row, side="right"))
            position = int(self._positions[batch]) - self._split.position
            raise damaged(self._split, position, f"one of the time {self._timestamps[row]} ms")

    def to_arrow(self) -> pa.RecordBatch:
        """All columns, in the order and with the types of the schema."""

        def repeated(values: np.ndarray) -> pa.Array:
            return pa.array(np.repeat(values, self._counts))

        schema = arrow_schema("records")
        columns = [
            *location_columns(self._split, np.repeat(self._positions, self._counts)),
            repeated(self._sizes),
            pa.array(self._offsets),
            repeated(self._epochs),
            pa.array(self._timestamps * MICROSECONDS_PER_MS).cast(schema.field("timestamp").type),
            repeated(self._are_control),
            self._sparse(self._control_types, pa.string()),
            self._sparse(self._keys, pa.binary()),
            self._values,
            pa.nulls(self._count, pa.string()),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def _sparse(self, cells: dict[int, str] | dict[int, bytes], kind: pa.DataType) -> pa.Array:
        """A column that is null except in these rows."""
        if not cells:
            return pa.nulls(self._count, kind)
        return pa.array([cells.get(row) for row in range(self._count)], kind)


def _believe_counts(split: Split, data: bytes, batches: Batches) -> None:
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


def _values_of_kraft(batch: bytes) -> list[bytes] | None:
    """The values of a batch in KRaft's form; None for another client's batch, or a damaged one."""
    try:
        return decode_values(batch, verify_crc=False)
    except ProtocolError:
        return None


def _gathered(data: bytes, found: Values, are_found: np.ndarray, others: Sequence[bytes | None]) -> pa.BinaryArray:
    """One column of the values found in place (``are_found``, by row) and of the others, in their order."""
    rows = np.flatnonzero(are_found)
    rest = pa.array(others, pa.binary())
    if len(rows) == 0:
        return rest
    edges = np.empty(2 * len(rows), dtype=np.int32)
    edges[0::2] = found.starts[rows]
    edges[1::2] = edges[0::2] + found.sizes[rows]
    # The cells of this column alternate between values and the bytes between them; take every second one.
    cells = pa.Array.from_buffers(pa.binary(), len(edges) - 1, [None, pa.py_buffer(edges), pa.py_buffer(data)])
    values = cells.take(pa.array(np.arange(0, len(edges) - 1, 2)))
    if not others:
        return values
    order = np.empty(len(are_found), dtype=np.int64)
    order[rows] = np.arange(len(rows))
    order[~are_found] = np.arange(len(rows), len(are_found))
    return pa.concat_arrays([values, rest]).take(pa.array(order))
