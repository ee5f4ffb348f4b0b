"""The bytes of a snapshot on their way to a file that counts.

Owns the way: into a ``.part``, synced as it grows, and by one rename into place. Invariant: a ``.checkpoint`` is never
seen that is not whole and durable; whatever fails, or ends in the midst of it, leaves at most the ``.part``. The
positions have 64 bits. It refuses to know what the bytes mean.

`RawWriter.freeze`, step by step:

1. sync the part, its last bytes with it; 2. rename it; 3. sync the directory, and only then is the snapshot told.

A loss of power before 2 is durable leaves a part, or not even that; after it, a name for bytes that were synced before.

Source: KIP-630; Kafka's ``FileRawSnapshotWriter``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pykraft.errors import SnapshotTooLargeError, UsageError
from pykraft.log.fs import File, Fs
from pykraft.snapshot.files import checkpoint_path, part_path
from pykraft.types import Buffer, OffsetAndEpoch

SIZE_BYTES_MAX: Final = 2**63 - 1
"""The largest snapshot that the protocol can speak of."""
SYNC_INTERVAL_BYTES: Final = 4 * 1024 * 1024
"""A part is synced whenever it grew by so much: a log's own sync may have to wait for all that is not synced yet."""


class RawWriter:
    """One part that grows at its end. One writer at a time; none of its methods waits for anything but the disk."""

    def __init__(
        self, fs: Fs, path: Path, snapshot_id: OffsetAndEpoch, *, size_bytes_max: int = SIZE_BYTES_MAX
    ) -> None:
        """Open the part at this path, created if absent, where it ends."""
        self._fs = fs
        self.path = path
        self.snapshot_id = snapshot_id
        self._file: File = fs.open(path, create=True)
        self._size_bytes = self._file.size()
        self._unsynced_bytes = self._size_bytes
        self._size_bytes_max = size_bytes_max
        self._is_open = True
        self._is_frozen = False

    @classmethod
    def create(
        cls, fs: Fs, directory: Path, snapshot_id: OffsetAndEpoch, *, size_bytes_max: int = SIZE_BYTES_MAX
    ) -> RawWriter:
        """An empty part in this directory; what a failed writer left there is overwritten."""
        writer = cls(fs, part_path(directory, snapshot_id), snapshot_id, size_bytes_max=size_bytes_max)
        writer.cut(0)
        return writer

    @property
    def size_bytes(self) -> int:
        """Size of what was written: the position of the next byte."""
        return self._size_bytes

    @property
    def is_frozen(self) -> bool:
        """True once the snapshot is whole and durable."""
        return self._is_frozen

    def append(self, parts: Sequence[Buffer]) -> None:
        """Write these at the end; durable when frozen.

        Errors: UsageError after `freeze`, `close` or an error; SnapshotTooLargeError; StorageError. After an error the
        writer is done for.
        """
        self.require_open()
        self._is_open = False
        if self._size_bytes + sum(map(len, parts)) > self._size_bytes_max:
            raise SnapshotTooLargeError(f"the snapshot {self.path.name} grows beyond {self._size_bytes_max} bytes")
        added_bytes = self._file.pwrite(parts, self._size_bytes)
        self._size_bytes += added_bytes
        self._unsynced_bytes += added_bytes
        if self._unsynced_bytes >= SYNC_INTERVAL_BYTES:
            self._file.sync()
            self._unsynced_bytes = 0
        self._is_open = True

    def read(self, size_bytes: int, position: int) -> bytes:
        """What was written at this position, fewer bytes only at the end. Errors: as `append`."""
        self.require_open()
        return self._file.pread(size_bytes, position)

    def write_again(self, data: Buffer, position: int) -> None:
        """Write what `read` returned once more, where it was read; durable when frozen.

        What an earlier process wrote may be in pages that the kernel holds for clean since a sync of them has failed. A
        later sync would not write them, and would report success. Errors: as `append`.

        Source: Rebello et al., Can Applications Recover from fsync Failures? (USENIX ATC 2020).
        """
        self.require_open()
        self._is_open = False
        self._file.pwrite([data], position)
        self._is_open = True

    def cut(self, size_bytes: int) -> None:
        """Forget what is behind this position. Errors: as `append`."""
        self.require_open()
        assert size_bytes <= self._size_bytes
        self._is_open = False
        self._file.truncate(size_bytes)
        self._size_bytes = size_bytes
        self._is_open = True

    def freeze(self) -> None:
        """Make the snapshot count: whole, durable, never written again. A snapshot of this id that came first stays.

        Errors: as `append`.
        """
        self.require_open()
        self._is_open = False
        directory = self.path.parent
        final = checkpoint_path(directory, self.snapshot_id)
        self._file.sync()
        self._file.close()
        if self._fs.exists(final):  # Somebody may be in the midst of reading it: other bytes would be wrong there.
            self._fs.remove(self.path)
        else:
            self._fs.rename(self.path, final)
        self._fs.sync_dir(directory)
        self._is_frozen = True

    def close(self) -> None:
        """Let go of the file, and leave the part as it is; closing twice does nothing."""
        self._is_open = False
        self._file.close()

    def abandon(self) -> None:
        """Close, and remove the part; does nothing when the snapshot is frozen. Errors: StorageError."""
        self.close()
        if not self._is_frozen and self._fs.exists(self.path):
            self._fs.remove(self.path)

    def require_open(self) -> None:
        """Errors: UsageError when nothing more can be written."""
        if not self._is_open:
            state = "is frozen" if self._is_frozen else "was closed, or failed"
            raise UsageError(f"the snapshot writer of {self.path.name} {state}: nothing more is written with it")
