"""One open file of the real file system: `pykraft.log.fs.File` on POSIX calls.

This module translates operating system calls and their errors. Invariant: an ``OSError`` never leaves this file. It
becomes a `StorageError` that names the path and says what to do when the disk is full, or a `ReadError` when the disk
lost the bytes. No failed call is repeated: after a failed fdatasync the kernel may have dropped the pages, and a second
call would report success.

Source: POSIX ``pwritev``, ``fdatasync``, ``posix_fadvise``; Linux man-page ``fallocate(2)``.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

from pykraft.errors import ReadError, StorageError
from pykraft.types import Buffer

FILE_MODE: Final = 0o644
PARTS_MAX: Final = 1024
"""Most parts of one ``pwritev`` (IOV_MAX on Linux)."""
_KEEP_SIZE: Final = 1
"""``FALLOC_FL_KEEP_SIZE``: the size of the file stays."""
_REPAIRS: Final = {
    errno.ENOSPC: "free space on this disk, then start the node again",
    errno.EDQUOT: "raise the disk quota, then start the node again",
    errno.EACCES: "give this user access to it",
    errno.EROFS: "mount the file system for writing",
}
_LOST: Final = frozenset(
    code
    for name in ("EIO", "ENODATA", "EILSEQ", "EBADMSG", "EUCLEAN")
    if (code := getattr(errno, name, None)) is not None
)
"""Error codes of a read when the disk lost the bytes or the file system's checksum failed (Linux blk_status)."""


class SystemCall:
    """Turns an error of the operating system (ValueError: a closed file) into a StorageError that names the call."""

    __slots__ = ("_doing", "_path")

    # Not `contextmanager`: each write and each sync enters one, and a generator takes three times as long.
    def __init__(self, path: Path, doing: str) -> None:
        self._path = path
        self._doing = doing

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, (OSError, ValueError)):
            raise _storage_error(self._path, self._doing, error) from error


def _storage_error(path: Path, doing: str, error: OSError | ValueError) -> StorageError:
    if isinstance(error, OSError):
        reason = error.strerror or str(error)
        return StorageError(path, f"cannot {doing}: {reason}", repair=_REPAIRS.get(error.errno or 0))
    return StorageError(path, f"cannot {doing}: {error}")


class OsFile:
    """One open descriptor; closes with `close`, or when the last reference goes (see `pykraft.log.fs.File`)."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    def __del__(self) -> None:
        self.close()

    def fileno(self) -> int:
        """The descriptor, for a helper that shares it; -1 once closed."""
        return self._descriptor

    def pread(self, size_bytes: int, position: int) -> bytes:
        """See `File.pread`; one system call unless the read is short."""
        with SystemCall(self.path, f"read {size_bytes} bytes at {position}"):
            try:
                return self._read(size_bytes, position)
            except OSError as error:
                if error.errno not in _LOST:
                    raise
                found = f"{error.strerror} ({errno.errorcode[error.errno or 0]})"
                raise ReadError(self.path, position=position, expected=f"{size_bytes} bytes", found=found) from error

    def _read(self, size_bytes: int, position: int) -> bytes:
        data = os.pread(self._descriptor, size_bytes, position)
        while len(data) < size_bytes:
            more = os.pread(self._descriptor, size_bytes - len(data), position + len(data))
            if not more:
                break
            data += more
        return data

    def pwrite(self, parts: Sequence[Buffer], position: int) -> int:
        """See `File.pwrite`; one system call for each PARTS_MAX parts."""
        start = position
        # Not `SystemCall`, here and in `sync`: each append comes here, and a context manager takes five calls.
        try:
            for first in range(0, len(parts), PARTS_MAX):
                some = parts[first : first + PARTS_MAX]
                size_bytes = sum(map(len, some))
                done = os.pwritev(self._descriptor, some, position)
                if done < size_bytes:
                    self._write_rest(b"".join(some)[done:], position + done)
                position += size_bytes
        except (OSError, ValueError) as error:
            raise _storage_error(self.path, f"write at {start}", error) from error
        return position - start

    def _write_rest(self, rest: bytes, position: int) -> None:
        """Finish a short write: the repeated call either continues or fails with the reason (disk full, a signal)."""
        while rest:
            done = os.pwrite(self._descriptor, rest, position)
            if done == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            rest, position = rest[done:], position + done

    def size(self) -> int:
        """See `File.size`."""
        with SystemCall(self.path, "get the size"):
            return os.fstat(self._descriptor).st_size

    def is_at(self, path: Path) -> bool:
        """See `File.is_at`."""
        with SystemCall(path, "look up"):
            try:
                named = os.stat(path)
            except (FileNotFoundError, NotADirectoryError):
                return False
            return identity_of(named) == identity_of(os.fstat(self._descriptor))

    def truncate(self, size_bytes: int) -> None:
        """See `File.truncate`."""
        with SystemCall(self.path, f"truncate to {size_bytes} bytes"):
            os.ftruncate(self._descriptor, size_bytes)

    def sync(self) -> None:
        """See `File.sync`: fdatasync, which also writes a changed size; fsync where there is none."""
        try:
            getattr(os, "fdatasync", os.fsync)(self._descriptor)
            is_gone = os.fstat(self._descriptor).st_nlink == 0
        except (OSError, ValueError) as error:
            raise _storage_error(self.path, "sync", error) from error
        if is_gone:
            # Somebody deleted the file: the sync succeeded, but nobody can ever read what was written.
            raise StorageError(
                self.path,
                "is gone: somebody deleted it, or its directory, while the node wrote to it",
                repair="find out who; the node can start again, and takes part once its directory is proven",
            )

    def reserve(self, position: int, size_bytes: int) -> None:
        """See `File.reserve`: fallocate, where the system has it."""
        allocate = _fallocate()
        if allocate is None:
            return
        with suppress(OSError):
            # A file system without a block device is in memory (tmpfs), where a reserved page is cleared and then
            # written, or has its own idea of where to write (btrfs, overlays).
            if os.major(os.fstat(self._descriptor).st_dev):
                # An error is of no consequence: the write will tell.
                allocate(self._descriptor, _KEEP_SIZE, position, size_bytes)

    def unreserve(self) -> None:
        """See `File.unreserve`."""
        # Linux frees the blocks after the end of the file although its size stays.
        with suppress(OSError):
            os.ftruncate(self._descriptor, os.fstat(self._descriptor).st_size)

    def uncache(self, position: int, size_bytes: int) -> None:
        """See `File.uncache`: posix_fadvise, where the system has it."""
        if hasattr(os, "posix_fadvise"):
            with suppress(OSError):
                os.posix_fadvise(self._descriptor, position, size_bytes, os.POSIX_FADV_DONTNEED)

    def close(self) -> None:
        """See `File.close`."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


@cache
def _fallocate() -> Callable[[int, int, int, int], int] | None:
    """Linux's ``fallocate(descriptor, mode, position, size)``; Python has only the one that changes the size."""
    if not sys.platform.startswith("linux") or sys.maxsize < 2**32:
        return None
    import ctypes  # only where a log grows by megabytes

    found = getattr(ctypes.CDLL(None), "fallocate", None)
    if found is not None:
        found.argtypes = ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64
    return found


def identity_of(status: os.stat_result) -> tuple[int, int]:
    """Device and inode."""
    return status.st_dev, status.st_ino
