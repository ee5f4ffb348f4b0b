"""Converts whole batches to Arrow rows of their records, in bulk; and what rows of batches share with them.

Fields that all records of a batch share are repeated. The values of KRaft's batches with values of one size are found
and copied together (`pykraft.spark.data_source.bulk`), and those of all others are parsed together
(`pykraft.spark.data_source.records`); control batches, and what is unusual, go through the protocol's own decoder.
Only wanted columns are made: if none is in the records, they are not read, and malformed records under a valid CRC are
not noticed. A damaged batch is an error with its position, or, if the caller tolerates damage, one row that reports it.
The JSON of metadata records is kafka-dump-log's, but secrets are masked: tables are copied and looked at by many.

Invariant: a batch that is passed on has the length in its header and a valid CRC. A row group holds at most `ROWS_MAX`
rows and `BATCHES_SIZE_BYTES_MAX` of batches, decompressed, unless a single batch holds more. So memory is bounded
whatever a file contains.

Source: KIP-98, KIP-631; Kafka's ``DefaultRecordBatch`` and ``DumpLogSegments --cluster-metadata-decoder``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from pykraft.config import METADATA_TOPIC_NAME
from pykraft.errors import CorruptionError, ProtocolError, StorageError
from pykraft.protocol.batch import HEADER_SIZE_BYTES, BatchHeader, check_crc, open_batch, read_header
from pykraft.protocol.compression import Compression
from pykraft.protocol.control import TABLES, ControlType, control_type
from pykraft.protocol.metadata.record import read_metadata_record, without_secrets
from pykraft.protocol.records import Record, decode_records
from pykraft.spark.arrow_columns import array_column, bytes_column, number_column, text_column
from pykraft.spark.data_source import records as record_parts
from pykraft.spark.data_source.bulk import find_values, values_of
from pykraft.spark.data_source.headers import Headers, headers_of
from pykraft.spark.data_source.options import SourceOptions
from pykraft.spark.data_source.selection import EVERY_BATCH, EVERY_RECORD, Selection, arrow_schema
from pykraft.spark.data_source.splits import OFFSET_MIN, Origin, Split, chunks_with, judged, packed
from pykraft.spark.data_source.walk import OFFSET_MAX
from pykraft.spark.spark_versions import InputPartition
from pykraft.types import Buffer, Offset

INT32_MAX = 2**31 - 1
PARTITION_TEXT = re.compile(r"[0-9]{1,9}")


METADATA_COLUMNS: Final = ("type", "version", "data", "problem")
_COMPACT: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)
ROWS_MAX = 65_536
BATCHES_SIZE_BYTES_MAX = 8 * 1024 * 1024
MICROSECONDS_PER_MS = 1_000
FROM_VALUES = ("value", *METADATA_COLUMNS)
FROM_RECORDS = ("timestamp", "control_type", "key", "headers", *FROM_VALUES)
"""Columns for which records are read; the others are in the headers of batches."""
TIMESTAMP_MS_MIN, TIMESTAMP_MS_MAX = -62_135_596_800_000, 253_402_300_799_999
"""The years 1 to 9999, as in Spark SQL. Any other time in a log, such as one in nanoseconds, is null."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagedBytes:
    """Bytes that are not a batch: where they start in the origin, how many, the expected offset, and what is wrong."""

    position: int
    size_bytes: int
    offset: Offset
    text: str

    @classmethod
    def batch(cls, position: int, header: BatchHeader, problem: CorruptionError) -> DamagedBytes:
        return cls(position=position, size_bytes=header.size_bytes, offset=header.base_offset, text=str(problem))


def damaged(origin: Origin, position: int, found: str) -> CorruptionError:
    return CorruptionError(origin.path, position=origin.position + position, expected="a valid batch", found=found)


def sound_batches(
    origin: Origin, data: Buffer, *, tolerant: bool, headers: Headers | None = None, are_checked: bool = False
) -> Iterator[Headers | DamagedBytes]:
    """Batches that follow each other in ``data``; all of them are whole, and no byte that a CRC covers changed.

    ``headers`` are those of ``data`` if they are known already. Whoever has compared the CRCs of these bytes in memory
    says ``are_checked``.

    Errors: CorruptionError; when ``tolerant``, `DamagedBytes` is yielded instead.
    """
    found = headers_of(data) if headers is None else headers
    begin = reached = 0
    offset = origin.start_offset
    for index in [] if are_checked else np.flatnonzero(~found.have_crcs_of(data)).tolist():
        position, header = found.pair(index)
        problem = damaged(origin, position, _wrong_crc(data, position, header))
        if not tolerant:
            raise problem
        if begin < index:
            yield found.at(slice(begin, index))
        yield DamagedBytes.batch(position, header, problem)
        begin = index + 1
    if begin < len(found):
        yield found.at(slice(begin, len(found)))
    if len(found):
        position, header = found.pair(-1)
        reached, offset = position + header.size_bytes, header.end_offset
    if reached == len(data):
        return
    fault = damaged(origin, reached, _no_batch(data, reached))
    if not tolerant:
        raise fault
    yield DamagedBytes(position=reached, size_bytes=len(data) - reached, offset=offset, text=str(fault))


def _wrong_crc(data: Buffer, position: int, header: BatchHeader) -> str:
    try:
        check_crc(data, position, header)
    except ProtocolError as error:
        return str(error)
    raise AssertionError("two ways to compute a CRC differ")


def _no_batch(data: Buffer, position: int) -> str:
    if len(data) - position >= HEADER_SIZE_BYTES:
        try:
            read_header(data, position)
        except ProtocolError as error:
            return str(error)
    return f"{len(data) - position} bytes"


def location_columns(origin: Origin, positions: np.ndarray) -> dict[str, pa.Array]:
    """The columns replica, segment, position, topic and partition of rows in batches at these positions of a file.

    The first three are null for batches from a live quorum.
    """
    count = len(positions)
    topic, partition = _topic_and_partition(origin)
    columns = {"topic": constant(topic, count), "partition": constant(partition, count)}
    if origin.replica is None:
        nowhere = {"replica": constant(None, count), "segment": constant(None, count)}
        return columns | nowhere | {"position": pa.nulls(count, pa.int64())}
    segment = constant(Path(origin.path).name, count)
    return columns | {
        "replica": constant(origin.replica, count),
        "segment": segment,
        "position": array_column(positions, pa.int64()),
    }


def constant(value: str | int | None, count: int) -> pa.Array:
    """A column of one value: a text, a 32-bit number, or a null text. Columns of about as many rows share one."""
    return _constant(value, 1 << max(count - 1, 0).bit_length()).slice(0, count)


@lru_cache(maxsize=32)
def _constant(value: str | int | None, count: int) -> pa.Array:
    if value is None:
        return pa.nulls(count, pa.string())
    if isinstance(value, int):
        return array_column(np.full(count, value, dtype=np.int32), pa.int32())
    text = value.encode()
    edges = np.arange(count + 1, dtype=np.int32) * len(text)
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(edges), pa.py_buffer(text * count)])


def _topic_and_partition(origin: Origin) -> tuple[str, int]:
    if origin.replica is None:
        return origin.topic or METADATA_TOPIC_NAME, 0
    name = Path(origin.path).parent.name
    topic, _, partition = name.rpartition("-")
    return (topic, int(partition)) if topic and PARTITION_TEXT.fullmatch(partition) else (name, 0)


def damage_row(origin: Origin, damage: DamagedBytes, schema: pa.Schema) -> pa.RecordBatch:
    """One row of these columns that reports damage and is null otherwise."""
    position = np.array([origin.position + damage.position], dtype=np.int64)
    known = location_columns(origin, position)
    known["batch_size"] = number_column([min(damage.size_bytes, INT32_MAX)], pa.int32())
    known["offset"] = known["base_offset"] = number_column([damage.offset], pa.int64())
    known["corrupt"] = text_column([damage.text])
    return pa.RecordBatch.from_arrays(
        [known.get(field.name, pa.nulls(1, field.type)) for field in schema], schema=schema
    )


def metadata_columns(values: pa.BinaryArray) -> dict[str, pa.Array]:
    """`METADATA_COLUMNS` of these values of records."""
    rows = [_decoded(value) for value in values.to_pylist()]
    return {
        "type": text_column([row[0] for row in rows]),
        "version": number_column([row[1] for row in rows], pa.int32()),
        "data": text_column([row[2] for row in rows]),
        "problem": text_column([row[3] for row in rows]),
    }


def _decoded(value: bytes | None) -> tuple[str | None, int | None, str | None, str | None]:
    try:
        record = read_metadata_record(value)
    except ProtocolError as error:
        return None, None, None, str(error)
    return record.type, record.version, _COMPACT.encode(without_secrets(record).json()["data"]), None


def records_of(
    origin: Origin,
    data: Buffer,
    *,
    tolerant: bool = False,
    headers: Headers | None = None,
    are_checked: bool = False,
    selection: Selection = EVERY_RECORD,
) -> Iterator[pa.RecordBatch]:
    """The wanted records of a origin, CRC checked. ``data`` are its bytes; the rest is as in `sound_batches`.

    Errors: CorruptionError with file, position and what was found; if ``tolerant``, a row reports the damage instead.
    """
    for part in sound_batches(origin, data, tolerant=tolerant, headers=headers, are_checked=are_checked):
        if isinstance(part, DamagedBytes):
            yield damage_row(origin, part, selection.schema)
            continue
        wanted = part.at((part.counts > 0) & selection.wanted(part))
        for group, bodies in record_parts.groups_of(
            data, wanted, rows_max=ROWS_MAX, size_bytes_max=BATCHES_SIZE_BYTES_MAX
        ):
            try:
                yield _Rows(origin, data, group, bodies, selection).to_arrow()
            except CorruptionError:
                if not tolerant:
                    raise
                yield from _one_by_one(origin, data, group, bodies, selection)


def _one_by_one(
    origin: Origin, data: Buffer, headers: Headers, bodies: record_parts.Bodies | None, selection: Selection
) -> Iterator[pa.RecordBatch]:
    for index in range(len(headers)):
        one = slice(index, index + 1)
        own = None if bodies is None else bodies.at(one)
        try:
            yield _Rows(origin, data, headers.at(one), own, selection).to_arrow()
        except CorruptionError as error:
            yield damage_row(origin, DamagedBytes.batch(*headers.pair(index), error), selection.schema)


class _Rows:
    def __init__(
        self, origin: Origin, data: Buffer, headers: Headers, bodies: record_parts.Bodies | None, selection: Selection
    ) -> None:
        """Errors: CorruptionError for malformed records that a wanted column needs, and without ``bodies``."""
        if bodies is None:
            position, header = headers.pair(0)
            raise _not_unpacked(origin, data, position, header)
        self._origin = origin
        self._data = data
        self._bodies = bodies
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
        self._keys: pa.BinaryArray | None = None
        self._values: pa.BinaryArray | None = None
        self._record_headers: pa.ListArray | None = None
        if selection.has(*FROM_RECORDS) or headers.are_compacted.any():
            self._read_records(selection)

    def _read_records(self, selection: Selection) -> None:
        with_keys, with_values = selection.has("key"), selection.has(*FROM_VALUES)
        found = find_values(self._data, self._headers)
        are_left = ~found.are_found & ~self._headers.are_control
        are_parsed = np.zeros(len(are_left), dtype=np.bool_)
        values = [(self._rows_of(found.are_found), values_of(self._data, found))] if with_values else []
        keys: list[tuple[np.ndarray, pa.BinaryArray]] = []
        record_headers: list[tuple[np.ndarray, pa.ListArray]] = []
        if are_left.any():
            parsed = self._parse(are_left)
            are_parsed[are_left] = parsed.are_found
            kept = np.repeat(parsed.are_found, self._counts[are_left])
            rows = self._rows_of(are_parsed)
            self._offsets[rows] = (
                np.repeat(self._headers.column("base_offset"), self._counts)[rows] + (parsed.offset_deltas[kept])
            )
            are_own = ~np.repeat(self._headers.are_log_append_time, self._counts)[rows]
            self._timestamps[rows] += np.where(are_own, parsed.time_deltas[kept], 0)
            data = self._bodies.data
            if with_values:
                values.append((rows, record_parts.cells(data, parsed.value_starts[kept], parsed.value_sizes[kept])))
            if with_keys and (parsed.key_sizes[kept] >= 0).any():
                keys.append((rows, record_parts.cells(data, parsed.key_starts[kept], parsed.key_sizes[kept])))
            own = parsed.headers[:, kept[parsed.headers[0]]]
            if own.size and selection.has("headers"):
                own[0] = (np.cumsum(kept) - 1)[own[0]]
                record_headers.append((rows, record_parts.headers_column(data, own, len(rows))))
        for index in np.flatnonzero(~found.are_found & ~are_parsed).tolist():
            records = self._read(index)
            rows = np.arange(len(records)) + int(self._first_rows[index])
            values.append((rows, bytes_column([record.value for record in records])))
            keys.append((rows, bytes_column([record.key for record in records])))
            record_headers.append((rows, _headers_column(records)))
        if with_values:
            self._values = record_parts.merged(values, self._count, pa.binary())
        if with_keys:
            self._keys = record_parts.merged(keys, self._count, pa.binary())
        if selection.has("headers"):
            self._record_headers = record_parts.merged(record_headers, self._count, record_parts.HEADERS)

    def _parse(self, which: np.ndarray) -> record_parts.ParsedRecords:
        """The records of these batches, as far as their columns hold what the batches claim."""
        headers = self._headers.at(which)
        parsed = record_parts.parse_records(self._bodies.at(which), headers.counts, headers.column("last_offset_delta"))
        parsed.are_found &= np.abs(headers.column("base_timestamp")) < record_parts.TIMES_MAX
        return parsed

    def _rows_of(self, batches: np.ndarray) -> np.ndarray:
        return np.flatnonzero(np.repeat(batches, self._counts))

    def _read(self, index: int) -> Sequence[Record]:
        """The records of one batch, of which some fields go into the columns. Errors: CorruptionError."""
        position, header = self._headers.pair(index)
        batch = self._data[position : position + header.size_bytes]
        try:
            records = decode_records(batch, verify_crc=False)
            for row, record in enumerate(records, start=int(self._first_rows[index])):
                self._offsets[row] = record.offset
                self._timestamps[row] = record.timestamp_ms
                if header.is_control:
                    self._control_types[row] = _control_type(record)
        except ProtocolError as error:
            raise damaged(self._origin, position, str(error)) from error
        return records

    def to_arrow(self) -> pa.RecordBatch:
        """The wanted columns of the rows at the wanted offsets."""
        columns = [self._column(field) for field in self._schema]
        rows = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        origin = self._origin
        if (origin.start_offset, origin.end_offset) == (OFFSET_MIN, OFFSET_MAX):
            return rows
        # Rows outside of the wanted offsets are at the start and at the end.
        begin = int(np.searchsorted(self._offsets, origin.start_offset))
        return rows.slice(begin, max(0, int(np.searchsorted(self._offsets, origin.end_offset)) - begin))

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
                return _times(self._timestamps, field.type)
            case "timestampType":
                return self._repeated(headers.are_log_append_time, pa.int32())
            case "is_control":
                return self._repeated(headers.are_control, pa.bool_())
            case "control_type":
                types = self._control_types
                return text_column([types.get(row) for row in range(self._count)]) if types else self._nulls(field)
            case "key":
                assert self._keys is not None
                return self._keys
            case "headers":
                assert self._record_headers is not None
                return self._record_headers
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
        positions = self._origin.position + self._headers.positions
        return location_columns(self._origin, np.repeat(positions, self._counts))

    def _nulls(self, field: pa.Field) -> pa.Array:
        return pa.nulls(self._count, field.type)

    def _repeated(self, values: np.ndarray, kind: pa.DataType) -> pa.Array:
        dtype = np.bool_ if kind == pa.bool_() else np.int32
        return array_column(np.repeat(values.astype(dtype), self._counts), kind)


def _not_unpacked(origin: Origin, data: Buffer, position: int, header: BatchHeader) -> CorruptionError:
    try:
        open_batch(data[position : position + header.size_bytes], verify_crc=False)
    except ProtocolError as error:
        return damaged(origin, position, str(error))
    raise AssertionError("it was not decompressed before")


def _headers_column(records: Sequence[Record]) -> pa.ListArray:
    pairs = [pair for record in records for pair in record.headers]
    counts = np.array([len(record.headers) for record in records], dtype=np.int64)
    names, values = text_column([name for name, _ in pairs]), bytes_column([value for _, value in pairs])
    return record_parts.lists_of_headers(names, values, counts)


def _timestamps_ms(headers: Headers) -> np.ndarray:
    return np.where(headers.are_log_append_time, headers.column("max_timestamp"), headers.column("base_timestamp"))


def _control_type(record: Record) -> str:
    """Kafka's name of a control record; the number if a newer Kafka wrote it. Errors: ProtocolError."""
    number = control_type(record.key)
    return TABLES[ControlType(number)].name if number in TABLES else f"type {number}"


BATCH_ROWS_MAX = 4_096
GROUP_ROWS_MIN = 8_192
GROUP_SIZE_BYTES_MIN = 4 * 1024 * 1024
"""Groups of rows of several segments are joined up to here."""


def batches_of(
    origin: Origin,
    data: Buffer,
    *,
    tolerant: bool = False,
    headers: Headers | None = None,
    are_checked: bool = False,
    selection: Selection = EVERY_BATCH,
) -> Iterator[pa.RecordBatch]:
    """The wanted batches of a origin, CRC checked. ``data`` are its bytes; the rest is as in `sound_batches`.

    Errors: CorruptionError with file, position and what was found; if ``tolerant``, a row reports the damage instead.
    """
    for part in sound_batches(origin, data, tolerant=tolerant, headers=headers, are_checked=are_checked):
        if isinstance(part, DamagedBytes):
            yield damage_row(origin, part, selection.schema)
            continue
        are_within = (part.last_offsets >= origin.start_offset) & (part.column("base_offset") < origin.end_offset)
        for group in _neighbors(part, are_within & selection.wanted(part)):
            for begin in range(0, len(group), BATCH_ROWS_MAX):
                yield _rows(origin, data, group.at(slice(begin, begin + BATCH_ROWS_MAX)), selection)


def _neighbors(headers: Headers, are_wanted: np.ndarray) -> Iterator[Headers]:
    edges = np.flatnonzero(np.diff(are_wanted, prepend=False, append=False))
    for begin, end in edges.reshape(-1, 2).tolist():
        yield headers.at(slice(begin, end))


def _rows(origin: Origin, data: Buffer, headers: Headers, selection: Selection) -> pa.RecordBatch:
    count, positions, sizes = len(headers), headers.positions, headers.sizes_bytes
    time = arrow_schema("batches").field("base_timestamp").type
    edges = np.append(positions, positions[-1] + sizes[-1]).astype(np.int32)
    codecs = [Compression(codec).name.lower() for codec in headers.codecs.tolist()]
    columns = location_columns(origin, positions + origin.position) | {
        "batch_size": array_column(sizes.astype(np.int32), pa.int32()),
        "base_offset": array_column(headers.column("base_offset"), pa.int64()),
        "last_offset": array_column(headers.last_offsets, pa.int64()),
        "epoch": array_column(headers.column("epoch").astype(np.int32), pa.int32()),
        "base_timestamp": _times(headers.column("base_timestamp"), time),
        "max_timestamp": _times(headers.column("max_timestamp"), time),
        "records_count": array_column(headers.counts.astype(np.int32), pa.int32()),
        "is_control": array_column(headers.are_control, pa.bool_()),
        "compression": text_column(codecs),
        "crc": array_column(headers.column("crc"), pa.int64()),
        "content": pa.BinaryArray.from_buffers(pa.binary(), count, [None, pa.py_buffer(edges), pa.py_buffer(data)]),
        "corrupt": constant(None, count),
    }
    return pa.RecordBatch.from_arrays([columns[field.name] for field in selection.schema], schema=selection.schema)


def _times(times_ms: np.ndarray, kind: pa.DataType) -> pa.Array:
    are_valid = (times_ms >= TIMESTAMP_MS_MIN) & (times_ms <= TIMESTAMP_MS_MAX)
    if are_valid.all():
        return array_column(times_ms * MICROSECONDS_PER_MS, kind)
    times = np.where(are_valid, times_ms, 0) * MICROSECONDS_PER_MS
    bits = pa.py_buffer(np.packbits(are_valid, bitorder="little"))
    return pa.Array.from_buffers(kind, len(times), [bits, pa.py_buffer(times)])


@dataclass(frozen=True)
class SplitPartition(InputPartition):
    """The chunks of logs that one task reads."""

    splits: tuple[Split, ...]


def partitions_of(splits: Sequence[Split], options: SourceOptions) -> list[SplitPartition]:
    """The tasks for these splits, in order."""
    return [SplitPartition(group) for group in packed(splits, tasks_min=options.tasks_min)]


def read_split(partition: InputPartition, options: SourceOptions, selection: Selection) -> Iterator[pa.RecordBatch]:
    """The wanted rows of the splits of one task.

    Errors: CorruptionError, unless damage is to be marked; StorageError, unless a segment is gone and that may be.
    """
    if not isinstance(partition, SplitPartition):
        return  # without partitions, Spark reads an empty placeholder
    if len(partition.splits) == 1:
        yield from _rows_of_split(partition.splits[0], options, selection)
        return
    # Of small segments: Spark takes as long for a group of ten rows as for thousands.
    waiting: list[pa.RecordBatch] = []
    count = size_bytes = 0
    for rows in chain.from_iterable(_rows_of_split(split, options, selection) for split in partition.splits):
        waiting.append(rows)
        count, size_bytes = count + rows.num_rows, size_bytes + rows.nbytes
        if count >= GROUP_ROWS_MIN or size_bytes >= GROUP_SIZE_BYTES_MIN:
            yield _joined(waiting)
            waiting, count, size_bytes = [], 0, 0
    if waiting:
        yield _joined(waiting)


def _joined(groups: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    if len(groups) == 1:
        return groups[0]
    table = pa.Table.from_batches(groups).combine_chunks()
    columns = [column.chunk(0) if column.num_chunks else pa.array([], column.type) for column in table.columns]
    return pa.RecordBatch.from_arrays(columns, schema=groups[0].schema)


def _rows_of_split(split: Split, options: SourceOptions, selection: Selection) -> Iterator[pa.RecordBatch]:
    try:
        yield from _rows_in(split, options, selection)
    except StorageError as error:
        # A node may delete a segment after the plan was made.
        if options.fails_on_data_loss or not isinstance(error.__cause__, FileNotFoundError):
            raise


def _rows_in(split: Split, options: SourceOptions, selection: Selection) -> Iterator[pa.RecordBatch]:
    if split.damage is not None:
        size_bytes = split.end_position - split.position
        damage = DamagedBytes(position=0, size_bytes=size_bytes, offset=split.start_offset, text=split.damage)
        yield damage_row(split, damage, selection.schema)
        return
    rows_of = batches_of if options.rows == "batches" else records_of
    for chunk in chunks_with(headers_of, split):
        try:
            yield from rows_of(
                chunk.split, chunk.data, tolerant=options.tolerant, headers=chunk.headers, selection=selection
            )
        except CorruptionError as problem:
            raise judged(split, problem) from problem
