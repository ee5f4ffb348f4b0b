"""Reads a snapshot: its bytes for another replica, its records for the application.

`RawReader` returns bytes at any position, cut at the requested limit, and does not look at them. `SnapshotReader`
returns batch after batch, checked, from the header to the footer. Invariant: memory holds at most one batch and one
chunk, however large the snapshot is, and damaged records are never returned. Both keep their file open, so a snapshot
that is retired meanwhile can be read to its end.

Source: KIP-630; Kafka's ``FileRawSnapshotReader`` (whose positions end at 2 GiB) and ``RecordsSnapshotReader``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic, Protocol, TypeVar

from pykraft.errors import CorruptionError, DeserializeError, ErrorCode, ProtocolError
from pykraft.log.fs import File, Fs
from pykraft.protocol.records import decode_values
from pykraft.snapshot.files import checkpoint_path
from pykraft.snapshot.head import REPAIR, ContainsLog, PlacedBatch, SnapshotHead, read_batches
from pykraft.types import (
    ControlRecord,
    Epoch,
    Offset,
    OffsetAndEpoch,
)

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

SLICE_SIZE_BYTES_MAX: Final = 8 * 1024 * 1024
"""Most bytes that one `RawReader.read` returns, whatever was requested."""


class Deserializer(Protocol[T_co]):
    """The half of a serde that turns bytes into records."""

    def deserialize(self, data: bytes) -> T_co:
        """The record."""


class RawReader:
    """The bytes of a complete snapshot, at 64-bit positions. Threads may share it."""

    def __init__(self, fs: Fs, directory: Path, snapshot_id: OffsetAndEpoch) -> None:
        """Open the file. Errors: StorageError, also when there is no such snapshot."""
        self.snapshot_id = snapshot_id
        self._file: File = fs.open(checkpoint_path(directory, snapshot_id))
        self.size_bytes: int = self._file.size()

    def read(self, position: int, size_bytes_max: int) -> bytes:
        """Bytes from this position on: as many as requested, limited by the end and by SLICE_SIZE_BYTES_MAX.

        Errors: ProtocolError POSITION_OUT_OF_RANGE unless 0 <= position < size; INVALID_REQUEST for a negative limit;
        StorageError.
        """
        if not 0 <= position < self.size_bytes:
            raise ProtocolError(
                f"position {position} is outside of the snapshot, which has {self.size_bytes} bytes",
                ErrorCode.POSITION_OUT_OF_RANGE,
            )
        if size_bytes_max < 0:
            raise ProtocolError(f"{size_bytes_max} bytes were asked for")
        return self._file.pread(min(size_bytes_max, SLICE_SIZE_BYTES_MAX, self.size_bytes - position), position)

    def close(self) -> None:
        """Close the file; closing twice does nothing."""
        self._file.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotBatch(Generic[T]):
    """The records of one batch of a snapshot; either the application's or Raft's own, never both.

    Units: ``base_offset`` counts records from 0 within the snapshot; ``append_timestamp_ms`` is wall time.
    """

    base_offset: Offset
    epoch: Epoch
    append_timestamp_ms: int
    size_bytes: int
    records: Sequence[T]
    control_records: Sequence[ControlRecord]


class SnapshotReader(ContainsLog, Generic[T]):
    """A snapshot as a listener reads it; it can be iterated more than once."""

    def __init__(self, fs: Fs, path: Path, snapshot_id: OffsetAndEpoch, deserializer: Deserializer[T]) -> None:
        """Open the file and read its first batch.

        Errors: StorageError, also when there is no such file; CorruptionError.
        """
        super().__init__(snapshot_id)
        self._path = path
        self._deserializer = deserializer
        self._file: File = fs.open(path)
        self.size_bytes: int = self._file.size()
        try:
            self.head: SnapshotHead = SnapshotHead.of(next(self._batches()).controls)
        except BaseException:
            self._file.close()
            raise

    @classmethod
    def of(
        cls, fs: Fs, directory: Path, snapshot_id: OffsetAndEpoch, deserializer: Deserializer[T]
    ) -> SnapshotReader[T]:
        """The snapshot with this id. Errors: as the constructor."""
        return cls(fs, checkpoint_path(directory, snapshot_id), snapshot_id, deserializer)

    @property
    def last_contained_log_timestamp(self) -> int:
        """Wall ms of the record at `last_contained_log_offset`, from the header."""
        return self.head.last_contained_log_timestamp

    def __iter__(self) -> Iterator[SnapshotBatch[T]]:
        """All batches, including header and footer, which have no records of the application.

        Errors: CorruptionError, also when the footer is missing; DeserializeError; StorageError.
        """
        for batch in self._batches():
            yield SnapshotBatch(
                base_offset=batch.header.base_offset,
                epoch=batch.header.epoch,
                append_timestamp_ms=batch.header.max_timestamp,
                size_bytes=batch.header.size_bytes,
                records=() if batch.header.is_control else self._records(batch),
                control_records=batch.controls,
            )

    def close(self) -> None:
        """Close the file; closing twice does nothing."""
        self._file.close()

    def _batches(self) -> Iterator[PlacedBatch]:
        return read_batches(self._path, self._file, self.snapshot_id.epoch)

    def _records(self, batch: PlacedBatch) -> list[T]:
        try:
            values = decode_values(batch.data)
        except ProtocolError as error:
            raise CorruptionError(
                self._path,
                position=batch.position,
                expected="a batch of KRaft's records",
                found=str(error),
                repair=REPAIR,
            ) from error
        records: list[T] = []
        try:
            records += map(self._deserializer.deserialize, values)
        except Exception as error:
            problem = f"of {self._path.name}: {type(error).__name__}: {error}"
            raise DeserializeError(batch.header.base_offset + len(records), batch.header.epoch, problem) from error
        return records
