"""Staged files: one task's record batches on disk, until the driver has appended them to the log.

A file has whole batches, one after the other, and nothing else. Invariant: once a `StagedFile` tells of it, the file is
complete and synced, and nobody changes it. A reader checks each batch's CRC and the number of rows.

Source: ADR 097; the layout is that of a segment (`pykraft.protocol.batch`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from pykraft.errors import CorruptionError, ProtocolError, StorageError, UsageError
from pykraft.log.os_fs import OsFs
from pykraft.protocol.batch import HEADER_SIZE_BYTES, check_crc, read_header, unpack_header
from pykraft.text.words import counted


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
        """Which rows these are, for messages."""
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
                partition=each.partition,
                first_row_of_partition=row,
                first_row=first_row + row,
                count=count,
                data=data,
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
