"""The file system as the log sees it: two small protocols that everything below ``host`` goes through.

Owns the contract; `pykraft.log.os_fs.OsFs` is the real one, the simulator and the tests bring their own
(disks that lose unsynced pages, tear, stall and fill). The invariant callers build on:

- bytes are durable after `File.sync`, directory entries (create, rename, remove) after `Fs.sync_dir`;
  nothing else is durable, in no order, not even a file that was synced but whose name was not;
- a rename replaces its target atomically: after a crash the name shows the old file or the new, whole;
- every failure is a `StorageError` that names the path; a failed sync must never be repeated, since the
  kernel may have dropped the pages and would report success (fsyncgate, PostgreSQL 2018).

It refuses to know: formats, retries, caching.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from pykraft.errors import StorageError
from pykraft.types import Buffer

_NOT_OURS = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.EINVAL})
SMALL_FILE_SIZE_BYTES_MAX = 1024 * 1024
"""Bound of `Fs.read`: files read whole are metadata of a few hundred bytes."""


class File(Protocol):
    """An open file, addressed by position; there is no cursor, so threads may share it for reading.

    A file dropped without `close` is closed when nobody refers to it any more: a reader that still holds a
    segment which was truncated away never reads from a descriptor that was given to another file.
    """

    def pread(self, size_bytes: int, position: int) -> bytes:
        """Bytes from ``position`` on: exactly ``size_bytes``, fewer only where the file ends.

        Errors: ReadError when the disk has lost some of them; other bytes may still be readable. StorageError.
        """
        ...

    def pwrite(self, parts: Sequence[Buffer], position: int) -> int:
        """Write all parts one after the other at ``position``, growing the file; not durable yet.

        Returns the bytes written, always all of them; a short write is a StorageError (disk full).
        """
        ...

    def size(self) -> int:
        """Size of the file in bytes."""
        ...

    def is_at(self, path: Path) -> bool:
        """True when this path names this file, and not another one or none."""
        ...

    def truncate(self, size_bytes: int) -> None:
        """Cut the file or grow it with zeros (without using disk); not durable yet."""
        ...

    def sync(self) -> None:
        """Make content and size durable (fdatasync). Never call it again after it failed."""
        ...

    def close(self) -> None:
        """Close without syncing; closing twice does nothing."""
        ...


class Lock(Protocol):
    """Exclusive ownership of a lock file; the kernel drops it when the process ends in any way."""

    def release(self) -> None:
        """Give the lock up; releasing twice does nothing."""
        ...


class Fs(Protocol):
    """Directories and names. See the module for what is durable when."""

    def open(self, path: Path, *, create: bool = False, write: bool = False) -> File:
        """Open a file for reading, or for reading and writing; ``create`` (implies write) makes it if absent.

        Errors: StorageError, also when the file is absent and ``create`` is not set.
        """
        ...

    def exists(self, path: Path) -> bool:
        """True when the path names a file or a directory."""
        ...

    def listdir(self, path: Path) -> list[str]:
        """Names of the entries of a directory, sorted."""
        ...

    def mkdir(self, path: Path) -> None:
        """Create a directory whose parent exists; durable after `sync_dir` of the parent. Nothing when it exists."""
        ...

    def rename(self, old: Path, new: Path) -> None:
        """Rename within one directory, replacing ``new`` atomically; durable after `sync_dir`."""
        ...

    def remove(self, path: Path, *, missing_ok: bool = False) -> None:
        """Remove a file; durable after `sync_dir`.

        Errors: StorageError, also when it is absent, unless ``missing_ok``: for names that two threads may remove.
        """
        ...

    def sync_dir(self, path: Path) -> None:
        """Make the entries of a directory durable."""
        ...

    def read(self, path: Path) -> bytes:
        """The whole of a small file. Errors: StorageError when absent or above SMALL_FILE_SIZE_BYTES_MAX."""
        ...

    def lock(self, path: Path) -> Lock:
        """Take the exclusive lock on a file, created if absent, without waiting.

        Errors: StorageError when somebody else holds it.
        """
        ...

    def mutex(self) -> AbstractContextManager[object]:
        """A new lock between the threads that use these files: nobody else is within the block. It is not reentrant.

        It comes from here since the log knows no threads; where there is one thread only, it does nothing.
        """
        ...


def make_directory(fs: Fs, path: Path) -> None:
    """Create a directory and its parents; durable when it returns, also when they were there.

    A process that was killed between creating one of them and the sync of its parent leaves a directory that a power
    loss takes away, with all that was synced in it. So the whole path is synced at each start.

    Errors: StorageError.
    """
    if path.parent != path:
        make_directory(fs, path.parent)
    was_there = fs.exists(path)
    fs.mkdir(path)
    try:
        fs.sync_dir(path.parent)
    except StorageError as error:
        # What stands where this user can change nothing was not created by an earlier start of this node.
        code = error.__cause__.errno if isinstance(error.__cause__, OSError) else None
        if not (was_there and code in _NOT_OURS):
            raise


def write_atomically(fs: Fs, path: Path, content: bytes) -> None:
    """Replace a small file so that a crash leaves the old content or the new, and return when it is durable.

    1. write ``<name>.tmp`` from scratch and sync it; 2. rename it over the name; 3. sync the directory.

    Source: Kafka's ``CheckpointFile.write`` and ``Utils.atomicMoveWithFallback``.
    """
    temporary = path.with_name(path.name + ".tmp")
    file = fs.open(temporary, create=True)
    try:
        file.truncate(0)
        file.pwrite([content], 0)
        file.sync()
    finally:
        file.close()
    fs.rename(temporary, path)
    fs.sync_dir(path.parent)
