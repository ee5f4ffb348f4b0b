"""Reads a snapshot: splits its bytes into sound batches as they arrive, the facts at its beginning, and its records.

A snapshot consists of:

    control batch    SnapshotHeader, then kraft.version and voters of the log at the snapshot's end
    data batches     any number, also none
    control batch    SnapshotFooter; nothing comes after it

Offsets count from 0 within the file, without a gap; the partition leader epoch is that of the snapshot's id.
`RawReader` returns bytes at any position, for another replica, and does not look at them. `SnapshotReader` returns
batch after batch, checked, from the header to the footer. Both keep their file open, so a snapshot that is retired
meanwhile can be read to its end.

Invariants: what `BatchStream.feed` returns is sound: header, CRC, position and kind. Memory holds at most one batch,
whose size is limited, and one chunk, however large the snapshot is; `read_head` reads no more than that.

Source: KIP-630 §Snapshot Format, KIP-853; Kafka's ``RecordsSnapshotReader``, ``RecordsSnapshotWriter``,
``FileRawSnapshotReader`` (whose positions end at 2 GiB), ``RecordsIterator`` and ``KRaftControlRecordStateMachine``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic, Protocol, TypeVar

from pykraft import types
from pykraft.errors import CorruptionError, DeserializeError, ErrorCode, ProtocolError
from pykraft.log.fs import File, Fs
from pykraft.protocol.batch import HEADER_SIZE_BYTES, BatchHeader, crc_of, read_header
from pykraft.protocol.records import decode_control, decode_values
from pykraft.snapshot.files import checkpoint_path

CHUNK_SIZE_BYTES: Final = 1024 * 1024
"""Bytes of one read from a file."""
BATCH_SIZE_BYTES_MAX: Final = 16 * 1024 * 1024
"""Largest batch that is read: twice the size of Kafka's largest."""
REPAIR: Final = "replace it with the snapshot of this name from another replica, or add a later one of that replica"


@dataclass(frozen=True, slots=True)
class PlacedBatch:
    """One sound batch: its position and all its bytes. ``controls`` is empty for the application's batches."""

    position: int
    header: BatchHeader
    data: bytes
    controls: Sequence[types.ControlRecord]


class BatchStream:
    """The bytes fed so far, and what must come next. After an error only `forget_rest` makes it usable again."""

    def __init__(self, path: Path, epoch: types.Epoch) -> None:
        """``path`` appears in errors; ``epoch`` is that of the snapshot's id."""
        self._path = path
        self._epoch = epoch
        self._rest = bytearray()
        self._offset = types.Offset(0)
        self.position = 0
        """End of the last whole batch."""
        self._has_footer = False

    @property
    def is_whole(self) -> bool:
        """True when the bytes fed so far end with the SnapshotFooter."""
        return self._has_footer and not self._rest

    def feed(self, data: types.Buffer) -> list[PlacedBatch]:
        """The batches that these bytes complete.

        Errors: CorruptionError at the first wrong batch; the caller does not get the batches before it.
        """
        self._rest += data
        found: list[PlacedBatch] = []
        taken_bytes = 0
        while len(self._rest) - taken_bytes >= HEADER_SIZE_BYTES:
            header = self._header(taken_bytes)
            if header.size_bytes > len(self._rest) - taken_bytes:
                break
            with memoryview(self._rest) as view:
                batch = bytes(view[taken_bytes : taken_bytes + header.size_bytes])
            found.append(self._take(header, batch))
            taken_bytes += header.size_bytes
        del self._rest[:taken_bytes]
        return found

    def forget_rest(self) -> None:
        """Drop the bytes after the last whole batch; the next bytes to feed are those at `position`."""
        self._rest.clear()

    def finish(self) -> None:
        """Tell that the bytes end here. Errors: CorruptionError when a batch is cut off, or the footer is missing."""
        if self._rest:
            raise self._corruption("a whole batch", f"the first {len(self._rest)} bytes of one")
        if not self._has_footer:
            raise self._corruption("a batch with the SnapshotFooter", "the end of the file")

    def _header(self, at: int) -> BatchHeader:
        try:
            header = read_header(self._rest, at)
        except ProtocolError as error:
            found = str(error).removeprefix(f"the batch at byte {at} ")
            raise self._corruption("a batch header", f"one that {found}") from error
        if self._has_footer:
            raise self._corruption("nothing after the SnapshotFooter", f"a batch of {header.size_bytes} bytes")
        # A damaged or hostile length would otherwise make us buffer gigabytes.
        if header.size_bytes > BATCH_SIZE_BYTES_MAX:
            raise self._corruption(f"a batch of at most {BATCH_SIZE_BYTES_MAX} bytes", f"{header.size_bytes} bytes")
        if header.base_offset != self._offset:
            raise self._corruption(f"offset {self._offset}", f"offset {header.base_offset}")
        # No CRC covers the epoch, so only the snapshot's id shows that it changed.
        if header.epoch != self._epoch:
            raise self._corruption(f"epoch {self._epoch} as in the snapshot's id", f"epoch {header.epoch}")
        return header

    def _take(self, header: BatchHeader, data: bytes) -> PlacedBatch:
        crc = crc_of(data, 0, header)
        if crc != header.crc:
            raise self._corruption(f"CRC {header.crc:08x} of {header.size_bytes} bytes", f"CRC {crc:08x}")
        controls = self._controls(data) if header.is_control else ()
        is_first = self.position == 0
        if is_first and not (controls and isinstance(controls[0], types.SnapshotHeader)):
            raise self._corruption("a batch with the SnapshotHeader", "another one")
        self._has_footer = any(isinstance(record, types.SnapshotFooter) for record in controls)
        placed = PlacedBatch(self.position, header, data, controls)
        self.position += header.size_bytes
        self._offset = header.end_offset
        return placed

    def _controls(self, data: bytes) -> list[types.ControlRecord]:
        try:
            return decode_control(data)
        except ProtocolError as error:
            raise self._corruption("a batch of control records", str(error)) from error

    def _corruption(self, expected: str, found: str) -> CorruptionError:
        return CorruptionError(self._path, position=self.position, expected=expected, found=found, repair=REPAIR)


def read_batches(path: Path, file: File, epoch: types.Epoch) -> Iterator[PlacedBatch]:
    """All batches of a complete snapshot, one after the other; at least one.

    Errors: CorruptionError at the first chunk with a wrong batch, and when the footer is missing; StorageError.
    """
    stream = BatchStream(path, epoch)
    end = file.size()
    for position in range(0, end, CHUNK_SIZE_BYTES):
        yield from stream.feed(file.pread(min(CHUNK_SIZE_BYTES, end - position), position))
    stream.finish()


class ContainsLog:
    """Base of snapshot readers and writers."""

    def __init__(self, snapshot_id: types.OffsetAndEpoch) -> None:
        self.snapshot_id = snapshot_id
        """The offset (exclusive) up to which the snapshot replaces the log, and the epoch of the record before it."""

    @property
    def last_contained_log_offset(self) -> types.Offset:
        """The last offset that the snapshot replaces; -1 for the bootstrap snapshot."""
        return types.Offset(self.snapshot_id.offset - 1)

    @property
    def last_contained_log_epoch(self) -> types.Epoch:
        return self.snapshot_id.epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotHead:
    """Facts about the last offset that a snapshot contains."""

    last_contained_log_timestamp: int
    """Wall ms of the record at that offset."""
    kraft_version: int = 0
    """The finalized kraft.version at that offset."""
    voters: types.VoterSet | None = None
    """The voter set at that offset; None when the configuration has it, or when it is unknown."""

    @property
    def membership(self) -> tuple[types.MembershipRecord, ...]:
        """The same facts as the control records that a log would contain; empty for kraft.version 0."""
        level = (types.KRaftVersion(self.kraft_version),) if self.kraft_version else ()
        return level if self.voters is None else (*level, types.KRaftVoters(self.voters))

    @classmethod
    def of(cls, records: Sequence[types.ControlRecord]) -> SnapshotHead:
        """The facts in the first batch of a sound snapshot: a SnapshotHeader and the records after it."""
        header = records[0]
        assert isinstance(header, types.SnapshotHeader)
        return cls(
            last_contained_log_timestamp=header.last_contained_log_timestamp,
            kraft_version=next((record.level for record in records if isinstance(record, types.KRaftVersion)), 0),
            voters=next((record.voters for record in records if isinstance(record, types.KRaftVoters)), None),
        )


def read_head(fs: Fs, directory: Path, snapshot_id: types.OffsetAndEpoch) -> tuple[int, SnapshotHead]:
    """Size in bytes of a snapshot, and its head.

    Errors: StorageError, also when there is no such snapshot; CorruptionError.
    """
    path = checkpoint_path(directory, snapshot_id)
    with closing(fs.open(path)) as file:
        first = next(read_batches(path, file, snapshot_id.epoch))
        return file.size(), SnapshotHead.of(first.controls)


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

    def __init__(self, fs: Fs, directory: Path, snapshot_id: types.OffsetAndEpoch) -> None:
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

    base_offset: types.Offset
    epoch: types.Epoch
    append_timestamp_ms: int
    size_bytes: int
    records: Sequence[T]
    control_records: Sequence[types.ControlRecord]


class SnapshotReader(ContainsLog, Generic[T]):
    """A snapshot as a listener reads it; it can be iterated more than once."""

    def __init__(self, fs: Fs, path: Path, snapshot_id: types.OffsetAndEpoch, deserializer: Deserializer[T]) -> None:
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
        cls, fs: Fs, directory: Path, snapshot_id: types.OffsetAndEpoch, deserializer: Deserializer[T]
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
