"""Staged files: one task's record batches on disk, until the driver has appended them to the log.

A file has whole batches as they will be in the log, but for the producer's numbers: uncompressed, all records of a
batch with one time, so rows without keys and with values are what every replica reads, Kafka's too. Invariant: rows
keep their order, each is in one batch, and a row that does not fit alone is an error that names it. A `StagedFile` is
complete and synced, and nobody changes it. A reader checks each batch's CRC and the number of rows.

Source: ADR 079, ADR 097; `pykraft.protocol.batch` and `pykraft.protocol.records`.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from pykraft.errors import CorruptionError, ProtocolError, StorageError, UsageError
from pykraft.log.os_fs import OsFs
from pykraft.protocol.batch import HEADER_SIZE_BYTES, check_crc, read_header, seal_batch, unpack_header
from pykraft.protocol.primitives import encode_varint
from pykraft.protocol.records import encode_batch
from pykraft.text.words import counted
from pykraft.types import EPOCH_ZERO, Offset

RECORD_OVERHEAD_BYTES_MAX = 24
"""Most bytes that a batch adds to key and value: four varints and four single bytes."""
_NULL = encode_varint(-1)


class BatchMaker:
    """Makes batches of one partition's rows."""

    def __init__(self, *, partition: int, size_bytes_max: int, timestamp_ms: int) -> None:
        """``partition`` is Spark's number, for errors; ``timestamp_ms`` is wall time."""
        self._partition = partition
        self._size_bytes_max = size_bytes_max
        self._timestamp_ms = timestamp_ms
        self._values: list[bytes | None] = []
        self._keys: list[bytes | None] = []
        self._size_bytes = HEADER_SIZE_BYTES
        self.rows = 0
        """Rows that it was given."""

    def add(self, values: Sequence[bytes | None], keys: Sequence[bytes | None] | None) -> Iterator[tuple[bytes, int]]:
        """Take these rows; the batches that are full now, each with its number of rows.

        Errors: UsageError for a row that is too large.
        """
        for index, value in enumerate(values):
            key = None if keys is None else keys[index]
            size_bytes = RECORD_OVERHEAD_BYTES_MAX + len(value or b"") + len(key or b"")
            if self._size_bytes + size_bytes > self._size_bytes_max:
                yield from self.rest()
                if HEADER_SIZE_BYTES + size_bytes > self._size_bytes_max:
                    raise UsageError(
                        f"row {self.rows} of partition {self._partition} (both from 0) takes {size_bytes} bytes as a "
                        f"record, and a batch may take {self._size_bytes_max}: set the option maxBatchBytes, but not "
                        "above internal.metadata.max.batch.size.in.bytes of the nodes"
                    )
            self._values.append(value)
            self._keys.append(key)
            self._size_bytes += size_bytes
            self.rows += 1

    def rest(self) -> Iterator[tuple[bytes, int]]:
        """The batch that is not full, if there is one."""
        values, keys = self._values, self._keys
        self._values, self._keys, self._size_bytes = [], [], HEADER_SIZE_BYTES
        if values:
            yield _encode(values, keys, self._timestamp_ms), len(values)


def _encode(values: Sequence[bytes | None], keys: Sequence[bytes | None], timestamp_ms: int) -> bytes:
    plain = [value for value in values if value]
    if len(plain) == len(values) and not any(key is not None for key in keys):
        return encode_batch(plain, base_offset=Offset(0), epoch=EPOCH_ZERO, timestamp_ms=timestamp_ms).data
    pieces: list[bytes] = []
    for delta, (key, value) in enumerate(zip(keys, values, strict=True)):
        record = b"".join((b"\x00\x00", encode_varint(delta), _blob(key), _blob(value), b"\x00"))
        pieces += (encode_varint(len(record)), record)
    body = b"".join(pieces)
    count = len(values)
    return seal_batch(body, count=count, base_offset=Offset(0), epoch=EPOCH_ZERO, timestamp_ms=timestamp_ms).data


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
    file = None
    try:
        for batch, batch_rows in batches:
            if file is None:
                _make_folder(folder)
                file = path.open("xb")
            file.write(batch)
            rows, count, size_bytes = rows + batch_rows, count + 1, size_bytes + len(batch)
        if file is None:
            return None
        file.flush()
        os.fsync(file.fileno())
    except OSError as error:
        raise StorageError(path, f"rows cannot be staged: {error}") from error
    finally:
        if file is not None:
            file.close()
    OsFs().sync_dir(folder)
    return StagedFile(name=name, partition=partition, rows=rows, batches=count, size_bytes=size_bytes)


def _make_folder(folder: Path) -> None:
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
        with path.open("rb") as file:
            while head := file.read(HEADER_SIZE_BYTES):
                size_bytes = min(unpack_header(head).size_bytes, size_bytes_max)
                data = bytearray(head + file.read(size_bytes - HEADER_SIZE_BYTES))
                header = read_header(data)
                check_crc(data, 0, header)
                yield data, header.records_count
                position += size_bytes
    except ProtocolError as error:
        raise CorruptionError(path, position=position, expected="a staged batch", found=str(error)) from error
    except OSError as error:
        raise StorageError(path, f"staged rows cannot be read: {error}") from error
