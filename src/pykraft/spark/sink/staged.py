"""Staged files: one task's record batches on disk, until the driver has appended them to the log.

A file has whole batches as they will be in the log, but for the producer's numbers: uncompressed. If rows have no times
of their own, all records of a batch have one time, so rows with nothing but values are what every replica reads,
Kafka's too. Invariant: rows
keep their order, each is in one batch, and a row that does not fit alone is an error that names it. A `StagedFile` is
complete and synced, and nobody changes it. A reader checks each batch's CRC and the number of rows.

Source: ADR 079, ADR 097; `pykraft.protocol.batch` and `pykraft.protocol.records`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias
from uuid import uuid4

from pykraft.errors import CorruptionError, ProtocolError, StorageError, UsageError
from pykraft.object_storage import shared_folder
from pykraft.object_storage.files import Files, expect_reads
from pykraft.object_storage.uris import UriPath
from pykraft.protocol.batch import (
    HEADER_SIZE_BYTES,
    check_crc,
    read_header,
    seal_batch,
    unpack_header,
    with_max_timestamp,
)
from pykraft.protocol.primitives import encode_varint
from pykraft.protocol.records import encode_batch
from pykraft.text.words import counted
from pykraft.types import EPOCH_ZERO, Offset

RECORD_OVERHEAD_BYTES_MAX = 24
"""Most bytes that a batch adds to key and value: four varints and four single bytes."""
TIME_SIZE_BYTES_MAX = 9
"""Most bytes that a time of its own adds."""
NO_HEADERS = b"\x00"
_NULL = encode_varint(-1)
_Record: TypeAlias = tuple[bytes | None, bytes | None, bytes, int]
"""Key, value, headers as they are in the log, and time in ms."""


class BatchMaker:
    """Makes batches of one partition's rows."""

    def __init__(self, *, partition: int, size_bytes_max: int, timestamp_ms: int) -> None:
        """``partition`` is Spark's number, for errors; ``timestamp_ms`` is wall time."""
        self._partition = partition
        self._size_bytes_max = size_bytes_max
        self._timestamp_ms = timestamp_ms
        self._records: list[_Record] = []
        self._size_bytes = HEADER_SIZE_BYTES
        self.rows = 0
        """Rows that it was given."""

    def add(
        self,
        values: Sequence[bytes | None],
        keys: Sequence[bytes | None] | None,
        *,
        headers: Sequence[Sequence[Mapping[str, Any] | None] | None] | None = None,
        times_us: Sequence[int | None] | None = None,
    ) -> Iterator[tuple[bytes, int]]:
        """Take these rows; the batches that are full now, each with its number of rows.

        ``headers`` are lists of ``key`` and ``value``; a row without a time gets that of all.

        Errors: UsageError for a row that is too large, or that Kafka's clients could not read.
        """
        for index, value in enumerate(values):
            key = None if keys is None else keys[index]
            head = NO_HEADERS if headers is None else self._encoded(headers[index] or ())
            time_us = None if times_us is None else times_us[index]
            time_ms = self._timestamp_ms if time_us is None else time_us // 1_000
            if time_ms < 0:
                raise UsageError(f"{self._row} has a time before 1970, which no client of Kafka's could read")
            size_bytes = RECORD_OVERHEAD_BYTES_MAX + len(value or b"") + len(key or b"") + len(head) - len(NO_HEADERS)
            size_bytes += 0 if times_us is None else TIME_SIZE_BYTES_MAX
            if self._size_bytes + size_bytes > self._size_bytes_max:
                yield from self.rest()
                if HEADER_SIZE_BYTES + size_bytes > self._size_bytes_max:
                    raise UsageError(
                        f"{self._row} takes {size_bytes} bytes as a "
                        f"record, and a batch may take {self._size_bytes_max}: set the option maxBatchBytes, but not "
                        "above internal.metadata.max.batch.size.in.bytes of the nodes"
                    )
            self._records.append((key, value, head, time_ms))
            self._size_bytes += size_bytes
            self.rows += 1

    def rest(self) -> Iterator[tuple[bytes, int]]:
        """The batch that is not full, if there is one."""
        records = self._records
        self._records, self._size_bytes = [], HEADER_SIZE_BYTES
        if records:
            yield _encode(records), len(records)

    @property
    def _row(self) -> str:
        return f"row {self.rows} of partition {self._partition} (both from 0)"

    def _encoded(self, headers: Sequence[Mapping[str, Any] | None]) -> bytes:
        pieces = [encode_varint(len(headers))]
        for header in headers:
            if header is None or header["key"] is None:
                raise UsageError(f"{self._row} has a header without a key")
            pieces += (_blob(header["key"].encode()), _blob(header["value"]))
        return b"".join(pieces)


def _encode(records: Sequence[_Record]) -> bytes:
    base_ms = records[0][3]
    if all(value and key is None and head == NO_HEADERS and time == base_ms for key, value, head, time in records):
        plain = [value for _, value, _, _ in records if value]
        return encode_batch(plain, base_offset=Offset(0), epoch=EPOCH_ZERO, timestamp_ms=base_ms).data
    pieces: list[bytes] = []
    for delta, (key, value, head, time_ms) in enumerate(records):
        start = (b"\x00", encode_varint(time_ms - base_ms), encode_varint(delta))
        record = b"".join((*start, _blob(key), _blob(value), head))
        pieces += (encode_varint(len(record)), record)
    body, count = b"".join(pieces), len(records)
    data = seal_batch(body, count=count, base_offset=Offset(0), epoch=EPOCH_ZERO, timestamp_ms=base_ms).data
    latest_ms = max(time_ms for _, _, _, time_ms in records)
    return data if latest_ms == base_ms else with_max_timestamp(data, latest_ms).data


def _blob(data: bytes | None) -> bytes:
    return _NULL if data is None else encode_varint(len(data)) + data


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedFile:
    """A file of one partition, in the folder of its micro-batch."""

    name: str
    partition: int
    rows: int
    batches: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedBatch:
    """One batch: where its rows are among those of the partition and of the whole micro-batch, both from 0."""

    partition: int
    first_row_of_partition: int
    first_row: int
    count: int
    data: bytearray

    @property
    def story(self) -> str:
        last_row = self.first_row_of_partition + self.count - 1
        return f"rows {self.first_row_of_partition} to {last_row} of partition {self.partition}"


def stage(folder: Path, partition: int, batches: Iterable[tuple[bytes, int]]) -> StagedFile | None:
    """Write these batches, each with its number of rows, into a new file; None if there are none.

    Errors: StorageError; UsageError if the folder's parent is not there, on a machine that does not share it.
    """
    name = f"{partition:05d}-{uuid4().hex}"
    path = folder / name
    rows = count = size_bytes = 0
    remaining = iter(batches)
    first = next(remaining, None)
    if first is None:
        return None
    try:
        _make_folder(folder)
        with shared_folder.new_file(path) as write:
            for batch, batch_rows in chain([first], remaining):
                write(batch)
                rows, count, size_bytes = rows + batch_rows, count + 1, size_bytes + len(batch)
    except OSError as error:
        raise StorageError(path, f"rows cannot be staged: {error}") from error
    return StagedFile(name=name, partition=partition, rows=rows, batches=count, size_bytes=size_bytes)


def _make_folder(folder: Path) -> None:
    if isinstance(folder, UriPath):
        return  # a name of an object has no folders
    # The driver made the parents: where they are not, the folder would be one that nobody else sees.
    if not folder.parent.parent.is_dir():
        raise UsageError(
            f"{folder.parent.parent} is not on this machine: set the option stagingLocation to a folder that the "
            "driver and all executors share"
        )
    folder.mkdir(parents=True, exist_ok=True)


def staged_batches(folder: Path, files: Iterable[StagedFile], *, size_bytes_max: int) -> Iterator[StagedBatch]:
    """The batches of these files in order, one in memory at a time.

    Errors: StorageError; CorruptionError for a file that is not as it was written.
    """
    first_row = 0
    for each in files:
        path = folder / each.name
        row = 0
        for data, count in _batches(path, size_bytes_max):
            yield StagedBatch(
                partition=each.partition, first_row_of_partition=row, first_row=first_row + row, count=count, data=data
            )
            row += count
        if row != each.rows:
            expected, found = counted(each.rows, "row"), counted(row, "row")
            raise CorruptionError(path, position=each.size_bytes, expected=expected, found=found)
        first_row += row


def _batches(path: Path, size_bytes_max: int) -> Iterator[tuple[bytearray, int]]:
    position = 0
    try:
        with closing(Files().open(path)) as file:
            expect_reads(file, 0, file.size())
            while head := file.pread(HEADER_SIZE_BYTES, position):
                size_bytes = min(unpack_header(head).size_bytes, size_bytes_max)
                data = bytearray(file.pread(size_bytes, position))
                header = read_header(data)
                check_crc(data, 0, header)
                yield data, header.records_count
                position += size_bytes
    except ProtocolError as error:
        raise CorruptionError(path, position=position, expected="a staged batch", found=str(error)) from error
