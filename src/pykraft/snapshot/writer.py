"""Writes a snapshot of the application's state: records in, batches of bounded size out, and then a rename into place.

The header with kraft.version and voters comes before the records, the footer after them. Invariants: one call writes
only the records it was given, so memory holds at most one open batch. All batches carry the timestamp of the last log
record that the snapshot contains, so that two replicas whose applications add the same records write the same bytes.

The bytes go into a ``.part`` that is synced as it grows; a ``.checkpoint`` is always complete and durable.
`RawWriter.freeze` takes three steps:

1. Sync the part, including its last bytes.
2. Rename it.
3. Sync the directory. Only then does anybody hear of the snapshot.

Nobody relies on a part, so an error of it is a `SnapshotFailedError`: the part is removed, and a later one begins with
a new file. An error of step 3 is not: the names of the log are in the same directory (ADR 134).

Formatting writes the bootstrap snapshot 0-0, which names the voters before there is a log. The first leader copies its
content into the log; nobody fetches the file itself.

Source: KIP-630, KIP-853 §Bootstrapping; Kafka's ``RecordsSnapshotWriter``, ``FileRawSnapshotWriter``, ``Formatter`` and
``BootstrapDirectory``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Generic, Never, Protocol, TypeVar, assert_never

from pykraft import errors, types
from pykraft.log.fs import File, Fs, make_directory
from pykraft.protocol.records import HEADER_SIZE_BYTES, batch_size_bytes, encode_batch, encode_control_batch
from pykraft.record_list import check_records
from pykraft.snapshot.files import BOOTSTRAP_ID, checkpoint_path, list_snapshots, part_path
from pykraft.snapshot.head import ContainsLog, read_head

SIZE_BYTES_MAX: Final = 2**63 - 1
"""Largest snapshot that the protocol can express."""
SYNC_INTERVAL_BYTES: Final = 1024 * 1024
"""A part is synced each time it grew by this much: a sync of the log may have to wait for all unsynced bytes."""


class RawWriter:
    """A part that grows at its end. One writer at a time; no method waits for anything but the disk."""

    def __init__(
        self, fs: Fs, path: Path, snapshot_id: types.OffsetAndEpoch, *, size_bytes_max: int = SIZE_BYTES_MAX
    ) -> None:
        """Open the part at this path at its end; create it if absent."""
        self._fs = fs
        self.path = path
        self.snapshot_id = snapshot_id
        with not_relied_on():
            self._file: File = fs.open(path, create=True)
            self.size_bytes = self._file.size()
        """Bytes written so far, which is the position of the next byte."""
        self._unsynced_bytes = self.size_bytes
        self._size_bytes_max = size_bytes_max
        self._is_open = True
        self.is_frozen = False
        """True once the snapshot is complete and durable."""

    @classmethod
    def create(
        cls, fs: Fs, directory: Path, snapshot_id: types.OffsetAndEpoch, *, size_bytes_max: int = SIZE_BYTES_MAX
    ) -> RawWriter:
        """An empty part in this directory; bytes that a failed writer left there are overwritten."""
        writer = cls(fs, part_path(directory, snapshot_id), snapshot_id, size_bytes_max=size_bytes_max)
        writer.cut(0)
        return writer

    def append(self, parts: Sequence[types.Buffer]) -> None:
        """Write these parts at the end; durable when frozen.

        Errors: UsageError after `freeze`, `close` or an error; SnapshotTooLargeError; SnapshotFailedError. After an
        error the writer is unusable.
        """
        self.require_open()
        # An exception below leaves the writer closed: nobody knows what the file holds then.
        self._is_open = False
        if self.size_bytes + sum(map(len, parts)) > self._size_bytes_max:
            raise errors.SnapshotTooLargeError(
                f"the snapshot {self.path.name} grows beyond {self._size_bytes_max} bytes"
            )
        with not_relied_on():
            added_bytes = self._file.pwrite(parts, self.size_bytes)
            self.size_bytes += added_bytes
            self._unsynced_bytes += added_bytes
            if self._unsynced_bytes >= SYNC_INTERVAL_BYTES:
                self._file.sync()
                self._unsynced_bytes = 0
        self._is_open = True

    def read(self, size_bytes: int, position: int) -> bytes:
        """The bytes at this position, fewer only at the end. Errors: as `append`."""
        self.require_open()
        with not_relied_on():
            return self._file.pread(size_bytes, position)

    def write_again(self, data: types.Buffer, position: int) -> None:
        """Write bytes that `read` returned once more, at the same position; durable when frozen.

        The bytes of an earlier process may be in pages that the kernel treats as clean because a sync of them failed. A
        later sync would not write them and would report success. Errors: as `append`.

        Source: Rebello et al., Can Applications Recover from fsync Failures? (USENIX ATC 2020).
        """
        self.require_open()
        self._is_open = False
        with not_relied_on():
            self._file.pwrite([data], position)
        self._is_open = True

    def cut(self, size_bytes: int) -> None:
        """Drop the bytes after this position. Errors: as `append`."""
        self.require_open()
        assert size_bytes <= self.size_bytes
        self._is_open = False
        with not_relied_on():
            self._file.truncate(size_bytes)
        self.size_bytes = size_bytes
        self._is_open = True

    def freeze(self) -> None:
        """Make the snapshot count: complete, durable, never written again. An existing snapshot with this id stays.

        Errors: as `append`; StorageError when the directory cannot be synced.
        """
        self.require_open()
        self._is_open = False
        directory = self.path.parent
        final = checkpoint_path(directory, self.snapshot_id)
        with not_relied_on():
            # 1. Before the rename, so that the final name never belongs to bytes that may be lost.
            self._file.sync()
            self._file.close()
            # 2. Keep an existing file: a replica may be reading it, and other bytes would be wrong there.
            if self._fs.exists(final):
                self._fs.remove(self.path)
            else:
                self._fs.rename(self.path, final)
        # 3. Until this sync a power loss may undo the rename.
        self._fs.sync_dir(directory)
        self.is_frozen = True

    def close(self) -> None:
        """Close the file and leave the part as it is; closing twice does nothing."""
        self._is_open = False
        self._file.close()

    def abandon(self) -> None:
        """Close, and remove the part; does nothing when the snapshot is frozen.

        A part that cannot be removed stays for the next attempt, which empties it, or the next start, which removes it.
        """
        self.close()
        # After a directory that could not be synced the part may have its final name already.
        with suppress(errors.StorageError):
            if not self.is_frozen and self._fs.exists(self.path):
                self._fs.remove(self.path)

    def require_open(self) -> None:
        """Check that the writer still accepts bytes. Errors: UsageError when it does not."""
        if not self._is_open:
            state = "is frozen" if self.is_frozen else "was closed, or failed"
            raise errors.UsageError(f"the snapshot writer of {self.path.name} {state}: nothing more is written with it")


@contextmanager
def not_relied_on() -> Iterator[None]:
    """Raise errors of files on which nothing was promised as SnapshotFailedError; damaged bytes stay what they are."""
    try:
        yield
    except errors.CorruptionError:
        raise
    except errors.StorageError as error:
        raise errors.SnapshotFailedError.of(error) from error


T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)

RECORD_SIZE_BYTES_MAX: Final = 8 * 1024 * 1024 - HEADER_SIZE_BYTES
"""Most bytes of one record in a batch, its frame included: Kafka's batches have at most 8 MiB."""
BATCH_SIZE_BYTES: Final = 1024 * 1024
"""A batch is written before it would exceed this size; a single larger record gets its own batch."""
_FRAME_SIZE_BYTES_MAX: Final = 19
"""Most bytes around the value of a record: three varints of up to five bytes, and four single bytes."""


class Serializer(Protocol[T_contra]):
    """The half of a serde that turns records into bytes, at least one byte each."""

    def serialize(self, record: T_contra) -> bytes:
        """The bytes of the record."""


class SnapshotWriter(ContainsLog, Generic[T]):
    """A snapshot that is being written: `append` records, then `freeze`; `close` without `freeze` discards it."""

    def __init__(
        self,
        fs: Fs,
        directory: Path,
        snapshot_id: types.OffsetAndEpoch,
        serializer: Serializer[T],
        *,
        last_contained_log_timestamp: int,
        kraft_version: int = 0,
        voters: types.VoterSet | None = None,
        size_bytes_max: int = SIZE_BYTES_MAX,
    ) -> None:
        """Create the part and write the header.

        ``kraft_version`` and ``voters`` are those in force at the last offset that the snapshot contains; the timestamp
        (wall ms) is that of its last record. ``size_bytes_max`` limits the file.

        Errors: UsageError for voters without kraft.version 1, because the configuration has them then;
        SnapshotFailedError.
        """
        if kraft_version == 0 and voters is not None:
            raise errors.UsageError("a snapshot of kraft.version 0 holds no voters: they are in the configuration")
        super().__init__(snapshot_id)
        self._serializer = serializer
        self.last_contained_log_timestamp = last_contained_log_timestamp
        """Wall ms of the record at `last_contained_log_offset`."""
        self._offset = types.Offset(0)
        self._values: list[bytes] = []
        self._open_size_bytes = 0
        self._raw = RawWriter.create(fs, directory, snapshot_id, size_bytes_max=size_bytes_max)
        head: list[types.ControlRecord] = [types.SnapshotHeader(last_contained_log_timestamp)]
        if kraft_version > 0:
            head.append(types.KRaftVersion(kraft_version))
        if voters is not None:
            head.append(types.KRaftVoters(voters))
        try:
            self._write_controls(head)
        except BaseException:
            self._raw.abandon()
            raise

    @property
    def is_frozen(self) -> bool:
        return self._raw.is_frozen

    def append(self, records: Iterable[T]) -> None:
        """Add records, in the order in which a listener will get them.

        Errors: UsageError for a single record or a set, an empty value, above the size limit, and after `freeze` or
        `close`; TypeError for a value that is not bytes; RecordBatchTooLargeError for a record above
        RECORD_SIZE_BYTES_MAX; SnapshotFailedError; any exception of the serializer. After an error the writer writes
        nothing more.
        """
        self._raw.require_open()
        try:
            check_records(records)
            for record in records:
                self._append_one(self._serializer.serialize(record))
        except BaseException:
            self._raw.close()
            raise

    def freeze(self) -> int:
        """Write the open batch and the footer, and make the snapshot count; returns its size in bytes.

        Errors: UsageError after `freeze`, `close` or an error, and above the size limit; SnapshotFailedError;
        StorageError when the directory cannot be synced.
        """
        self._raw.require_open()
        self._write_values()
        self._write_controls([types.SnapshotFooter()])
        self._raw.freeze()
        return self._raw.size_bytes

    def close(self) -> None:
        """Remove the part, unless the snapshot is frozen; closing twice does nothing."""
        self._values.clear()
        self._raw.abandon()

    def _append_one(self, value: bytes) -> None:
        if not isinstance(value, bytes):
            raise TypeError(f"{self._serializer!r} serialized a record as {type(value).__name__}, not as bytes")
        size_bytes = len(value) + _FRAME_SIZE_BYTES_MAX
        if not value or size_bytes > RECORD_SIZE_BYTES_MAX:
            self._refuse(value)
        if self._open_size_bytes + size_bytes > BATCH_SIZE_BYTES:
            self._write_values()
        self._values.append(value)
        self._open_size_bytes += size_bytes

    def _refuse(self, value: bytes) -> None:
        if not value:
            raise errors.UsageError("a record takes at least one byte in a snapshot: the serializer made an empty one")
        size_bytes = batch_size_bytes([value]) - HEADER_SIZE_BYTES
        if size_bytes > RECORD_SIZE_BYTES_MAX:
            raise errors.RecordBatchTooLargeError(
                f"a record takes {size_bytes} bytes, and at most {RECORD_SIZE_BYTES_MAX} are allowed in a snapshot"
            )

    def _write_values(self) -> None:
        if self._values:
            self._write(
                encode_batch(
                    self._values,
                    base_offset=self._offset,
                    epoch=self.snapshot_id.epoch,
                    timestamp_ms=self.last_contained_log_timestamp,
                ).data,
                len(self._values),
            )
            self._values.clear()
            self._open_size_bytes = 0

    def _write_controls(self, records: list[types.ControlRecord]) -> None:
        batch = encode_control_batch(
            records,
            base_offset=self._offset,
            epoch=self.snapshot_id.epoch,
            timestamp_ms=self.last_contained_log_timestamp,
        ).data
        self._write(batch, len(records))

    def _write(self, batch: bytes, count: int) -> None:
        self._raw.append([batch])
        self._offset = types.Offset(self._offset + count)


BOOTSTRAP_KRAFT_VERSION = 1


def write_bootstrap(fs: Fs, partition: Path, voters: types.VoterSet | None) -> None:
    """Write the bootstrap snapshot into a partition directory; a node that joins a quorum has no ``voters``.

    Errors: StorageError.
    """
    make_directory(fs, partition)
    writer: SnapshotWriter[Never] = SnapshotWriter(
        fs,
        partition,
        BOOTSTRAP_ID,
        _NoRecords(),
        last_contained_log_timestamp=0,
        kraft_version=BOOTSTRAP_KRAFT_VERSION,
        voters=voters,
    )
    try:
        writer.freeze()
    finally:
        writer.close()


def membership_in_snapshot(
    fs: Fs, partition: Path, log_end: types.Offset
) -> tuple[types.Offset, tuple[types.MembershipRecord, ...]]:
    """End offset and voter records of the newest snapshot within the log; 0 and nothing without a snapshot.

    Errors: StorageError; CorruptionError.
    """
    snapshots = list_snapshots(fs, partition)
    if not snapshots:
        return types.Offset(0), ()
    within = [each for each in snapshots if each.offset <= log_end]
    # A damaged log may end before all of its snapshots do; then the oldest of them is closest to it.
    chosen = within[-1] if within else snapshots[0]
    _, head = read_head(fs, partition, chosen)
    return min(chosen.offset, log_end), head.membership


class _NoRecords:
    """The serializer of a snapshot without records."""

    def serialize(self, record: Never) -> bytes:
        assert_never(record)
