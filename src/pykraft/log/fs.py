"""The file system as the log sees it: two small protocols that everything below ``host`` uses.

`pykraft.log.os_fs.OsFs` is the real implementation; the simulator and the tests share another, a disk that loses
unsynced pages, tears, stalls and fills up. Callers may rely on this and no more:

- Bytes are durable after `File.sync`, directory entries (create, rename, remove) after `Fs.sync_dir`. Nothing else is
  durable, and unsynced writes reach the disk in any order. A file that was synced is lost if its name was not.
- A rename replaces its target atomically: after a crash the name shows the whole old file or the whole new one.
- Every failure is a `StorageError` that names the path. A failed sync must never be repeated: the kernel may have
  dropped the pages, so the second sync would report success (fsyncgate, PostgreSQL 2018).
"""

import errno
from collections.abc import Sequence
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Protocol

from pykraft.errors import StorageError
from pykraft.types import Buffer

_NOT_OURS = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.EINVAL})
SMALL_FILE_SIZE_BYTES_MAX = 1024 * 1024
"""Limit of `Fs.read`: files that are read whole are metadata of a few hundred bytes."""


class File(Protocol):
    """An open file, addressed by position; there is no cursor, so threads may share it for reading.

    A file that is dropped without `close` closes when its last reference goes. So a reader that still holds a segment
    that was truncated away never reads from a descriptor that now belongs to another file.
    """

    def pread(self, size_bytes: int, position: int) -> bytes:
        """Bytes from ``position`` on: exactly ``size_bytes``, fewer only where the file ends.

        Errors: ReadError when the disk lost some of them; other bytes may still be readable. StorageError.
        """

    def pwrite(self, parts: Sequence[Buffer], position: int) -> int:
        """Write all parts one after the other at ``position``, growing the file; not durable yet.

        Returns the number of bytes written, which is always all of them: a short write is a StorageError (disk full).
        """

    def size(self) -> int:
        """Size of the file in bytes."""

    def is_at(self, path: Path) -> bool:
        """True when this path names this file, False when it names another file or nothing."""

    def truncate(self, size_bytes: int) -> None:
        """Cut the file, or grow it with zeros that use no disk space; not durable yet."""

    def sync(self) -> None:
        """Make content and size durable (fdatasync). Never call it again after it failed."""

    def reserve(self, position: int, size_bytes: int) -> None:
        """Reserve disk space for these bytes without changing the size: a hint, which fails silently."""

    def unreserve(self) -> None:
        """Give back the disk space reserved after the end of the file: a hint, too."""

    def uncache(self, position: int, size_bytes: int) -> None:
        """The system need not keep these bytes, which are durable, in memory: a hint, too."""

    def close(self) -> None:
        """Close without syncing; closing twice does nothing."""


class Lock(Protocol):
    """Exclusive ownership of a lock file; the kernel drops it when the process ends in any way."""

    def is_at_name(self) -> bool:
        """True while the name of the lock file belongs to the file that is held. Errors: StorageError."""

    def release(self) -> None:
        """Give the lock up; releasing twice does nothing."""


class Fs(Protocol):
    """Directories and names. See the module for what is durable when."""

    def open(self, path: Path, *, create: bool = False, write: bool = False) -> File:
        """Open a file for reading, or for reading and writing; ``create`` (implies write) creates it if absent.

        Errors: StorageError, also when the file is absent and ``create`` is not set.
        """

    def exists(self, path: Path) -> bool:
        """True when the path names a file or a directory."""

    def listdir(self, path: Path) -> list[str]:
        """Names of the entries of a directory, sorted."""

    def mkdir(self, path: Path) -> None:
        """Create a directory whose parent exists, unless it is there; durable after `sync_dir` of the parent."""

    def rename(self, old: Path, new: Path) -> None:
        """Rename within one directory, replacing ``new`` atomically; durable after `sync_dir`."""

    def remove(self, path: Path, *, missing_ok: bool = False) -> None:
        """Remove a file; durable after `sync_dir`.

        ``missing_ok`` is for names that two threads may remove.

        Errors: StorageError, also when the file is absent, unless ``missing_ok``.
        """

    def sync_dir(self, path: Path) -> None:
        """Make the entries of a directory durable."""

    def read(self, path: Path) -> bytes:
        """The whole content of a small file. Errors: StorageError when absent or above SMALL_FILE_SIZE_BYTES_MAX."""

    def lock(self, path: Path) -> Lock:
        """Take the exclusive lock on a file, created if absent, without waiting; on its directory, too, if possible.

        Errors: StorageError when somebody else holds it.
        """

    def mutex(self) -> AbstractContextManager[object]:
        """A new mutex between the threads that use these files. It is not reentrant.

        The file system provides it because the log does not know threads; where there is only one thread, it does
        nothing.
        """


def make_directory(fs: Fs, path: Path) -> None:
    """Create a directory and its parents; durable when it returns, also if they existed. Errors: StorageError."""
    if path.parent != path:
        make_directory(fs, path.parent)
    # Sync the parent even if the directory exists: a process killed between the mkdir and the sync left a directory
    # that a power loss removes, with everything that was synced in it.
    was_there = fs.exists(path)
    fs.mkdir(path)
    try:
        fs.sync_dir(path.parent)
    except StorageError as error:
        # This user cannot write to the parent, so an earlier start of this node cannot have created the directory.
        code = error.__cause__.errno if isinstance(error.__cause__, OSError) else None
        if not (was_there and code in _NOT_OURS):
            raise


def write_atomically(fs: Fs, path: Path, content: bytes) -> None:
    """Replace a small file so that a crash leaves the old content or the new; durable when it returns.

    1. Write ``<name>.tmp`` from scratch and sync it.
    2. Rename it over the name.
    3. Sync the directory.

    Source: Kafka's ``CheckpointFile.write`` and ``Utils.atomicMoveWithFallback``.
    """
    # 1. A crash here leaves only the temporary file, and the next call truncates that.
    temporary = path.with_name(path.name + ".tmp")
    with closing(fs.open(temporary, create=True)) as file:
        file.truncate(0)
        file.pwrite([content], 0)
        file.sync()
    # 2. Atomic: the name shows the old content or the new.
    fs.rename(temporary, path)
    # 3. Until this sync a power loss may undo the rename.
    fs.sync_dir(path.parent)


def read_small(file: File, path: Path) -> bytes:
    """The whole content of an open file, for `Fs.read`. Errors: as there."""
    data = file.pread(SMALL_FILE_SIZE_BYTES_MAX + 1, 0)
    if len(data) > SMALL_FILE_SIZE_BYTES_MAX:
        raise StorageError(
            path, f"has more than {SMALL_FILE_SIZE_BYTES_MAX} bytes, which is too large for a file of this name"
        )
    return data
