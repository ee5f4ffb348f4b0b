"""Writes the bytes of a snapshot: into a ``.part`` that is synced as it grows, then by one rename into place.

Invariant: a ``.checkpoint`` is always complete and durable. Any failure or stop leaves at most the ``.part``. Positions
have 64 bits. The caller knows what the bytes mean.

`RawWriter.freeze` takes three steps:

1. Sync the part, including its last bytes.
2. Rename it.
3. Sync the directory. Only then does anybody hear of the snapshot.

A power loss before 2 is durable leaves at most a part; after that, the new name belongs to bytes that were synced
before.

Nobody relies on a part, so an error of it is a `SnapshotFailedError`: the part is removed, and a later one begins with
a new file. An error of step 3 is not: the names of the log are in the same directory (ADR 134).

Source: KIP-630; Kafka's ``FileRawSnapshotWriter``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from pykraft.errors import CorruptionError, SnapshotFailedError, SnapshotTooLargeError, StorageError, UsageError
from pykraft.log.fs import File, Fs
from pykraft.snapshot.files import checkpoint_path, part_path
from pykraft.types import Buffer, OffsetAndEpoch

SIZE_BYTES_MAX: Final = 2**63 - 1
"""Largest snapshot that the protocol can express."""
SYNC_INTERVAL_BYTES: Final = 1024 * 1024
"""A part is synced each time it grew by this much: a sync of the log may have to wait for all unsynced bytes."""


class RawWriter:
    """A part that grows at its end. One writer at a time; no method waits for anything but the disk."""

    def __init__(
        self, fs: Fs, path: Path, snapshot_id: OffsetAndEpoch, *, size_bytes_max: int = SIZE_BYTES_MAX
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
        cls, fs: Fs, directory: Path, snapshot_id: OffsetAndEpoch, *, size_bytes_max: int = SIZE_BYTES_MAX
    ) -> RawWriter:
        """An empty part in this directory; bytes that a failed writer left there are overwritten."""
        writer = cls(fs, part_path(directory, snapshot_id), snapshot_id, size_bytes_max=size_bytes_max)
        writer.cut(0)
        return writer

    def append(self, parts: Sequence[Buffer]) -> None:
        """Write these parts at the end; durable when frozen.

        Errors: UsageError after `freeze`, `close` or an error; SnapshotTooLargeError; SnapshotFailedError. After an
        error the writer is unusable.
        """
        self.require_open()
        # An exception below leaves the writer closed: nobody knows what the file holds then.
        self._is_open = False
        if self.size_bytes + sum(map(len, parts)) > self._size_bytes_max:
            raise SnapshotTooLargeError(f"the snapshot {self.path.name} grows beyond {self._size_bytes_max} bytes")
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

    def write_again(self, data: Buffer, position: int) -> None:
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
        with suppress(StorageError):
            if not self.is_frozen and self._fs.exists(self.path):
                self._fs.remove(self.path)

    def require_open(self) -> None:
        """Check that the writer still accepts bytes. Errors: UsageError when it does not."""
        if not self._is_open:
            state = "is frozen" if self.is_frozen else "was closed, or failed"
            raise UsageError(f"the snapshot writer of {self.path.name} {state}: nothing more is written with it")


@contextmanager
def not_relied_on() -> Iterator[None]:
    """Raise errors of files on which nothing was promised as SnapshotFailedError; damaged bytes stay what they are."""
    try:
        yield
    except CorruptionError:
        raise
    except StorageError as error:
        raise SnapshotFailedError.of(error) from error
