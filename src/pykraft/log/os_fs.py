"""The real file system: `pykraft.log.fs` on POSIX calls, and the lock that keeps other nodes, also Kafka's, out.

Invariant: an ``OSError`` never leaves this file. It becomes a `StorageError` that names the path and says what to do
when the disk is full, or a `ReadError` when the disk lost the bytes. No failed call is repeated: after a failed
fdatasync the kernel may have dropped the pages, and a second call would report success.

``fcntl`` is imported only where a lock is taken, so that the module can be imported on any system.

Source: POSIX ``open``, ``rename``, ``fsync``, ``pwritev``, ``fdatasync``, ``posix_fadvise``; Linux man-pages
``flock(2)``, ``fcntl_locking(2)``, ``fallocate(2)``; proc(5).
"""

import errno
import os
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, closing, suppress
from functools import cache
from pathlib import Path
from struct import Struct
from typing import Final

from pykraft.errors import ReadError, StorageError
from pykraft.log.fs import Lock, read_small
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
        with SystemCall(self.path, "get the size"):
            return os.fstat(self._descriptor).st_size

    def is_at(self, path: Path) -> bool:
        with SystemCall(path, "look up"):
            try:
                named = os.stat(path)
            except (FileNotFoundError, NotADirectoryError):
                return False
            return identity_of(named) == identity_of(os.fstat(self._descriptor))

    def truncate(self, size_bytes: int) -> None:
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
        # Linux frees the blocks after the end of the file although its size stays.
        with suppress(OSError):
            os.ftruncate(self._descriptor, os.fstat(self._descriptor).st_size)

    def uncache(self, position: int, size_bytes: int) -> None:
        """See `File.uncache`: posix_fadvise, where the system has it."""
        if hasattr(os, "posix_fadvise"):
            with suppress(OSError):
                os.posix_fadvise(self._descriptor, position, size_bytes, os.POSIX_FADV_DONTNEED)

    def close(self) -> None:
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


_WHOLE_FILE: Final = Struct("hhqqi4x")
"""``struct flock`` of 64-bit Linux: type, whence, start, length (0: to the end), process."""
_KERNELS_LOCKS: Final = Path("/proc/locks")
_HELD: Final[set[tuple[int, int]]] = set()
"""Device and inode of each directory whose lock this process holds."""
_TAKING: Final = threading.Lock()


class OsLock:
    """A lock file held open, with two kinds of lock, because on Linux they do not see each other.

    ``flock`` blocks a second opening in any process. Java's ``FileChannel.tryLock`` sees only the record lock, which
    therefore keeps out a Kafka node on the same directory. A traditional record lock belongs to the process, which
    loses it when it closes any descriptor of the file, even one opened just to find out that the lock is held. So

    - where the system has it, this takes the record lock of the open file description, which ends only with that; and
    - it refuses a second lock in the same directory before it opens the file.

    Somebody may delete the lock file while it is held: a second node would create and lock another one. So the
    directory itself has a ``flock``, too, which is taken first. It has no name that could go to another file: who
    deletes or renames the directory takes all files of the node away. Kafka asks for the lock file only (ADR 135).
    """

    def __init__(self, path: Path) -> None:
        with _TAKING:
            directory, held = _take_directory(path)
            try:
                file = self._take_file(path)
            except BaseException:
                directory.close()
                raise
            _HELD.add(held)
        self._path, self._file = path, file
        self._give_up = weakref.finalize(self, _give_up, (directory, file), held)

    def is_at_name(self) -> bool:
        """See `Lock.is_at_name`."""
        return self._file.is_at(self._path)

    def release(self) -> None:
        """See `Lock.release`; closing the descriptors drops all locks."""
        self._give_up()

    @staticmethod
    def _take_file(path: Path) -> OsFile:
        with SystemCall(path, "open the lock file"):
            file = OsFile(path, os.open(path, os.O_RDWR | os.O_CREAT, FILE_MODE))
        try:
            _take(file.fileno())
        except OSError as error:
            held = identity_of(os.fstat(file.fileno()))
            file.close()
            if error.errno in (errno.EAGAIN, errno.EACCES):
                raise _held_elsewhere(path, held) from error
            raise StorageError(path, f"cannot lock: {error.strerror}") from error
        return file


def _take_directory(path: Path) -> tuple[OsFile, tuple[int, int]]:
    """Lock the directory of this lock file. A file system that locks no directories, such as NFS, is left out."""
    import fcntl  # POSIX only, and only here

    with SystemCall(path, "open the lock file"):
        directory = OsFile(path.parent, os.open(path.parent, os.O_RDONLY))
        held = identity_of(os.fstat(directory.fileno()))
    # Look before the lock file is opened: closing a second descriptor of it would drop our own traditional record lock.
    if held in _HELD:
        directory.close()
        raise StorageError(
            path,
            "cannot lock: this process already holds it",
            repair="close the node that uses this directory, or give this one a directory of its own",
        )
    try:
        fcntl.flock(directory.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno == errno.EWOULDBLOCK:
            directory.close()
            raise _held_elsewhere(path, held) from error
    return directory, held


def _held_elsewhere(path: Path, held: tuple[int, int]) -> StorageError:
    holder = holder_in(_KERNELS_LOCKS, held)
    who = "another process" if holder is None else f"another process, pid {holder},"
    return StorageError(
        path, f"cannot lock: {who} uses this directory", repair="stop it, or give this node a directory of its own"
    )


def _take(descriptor: int) -> None:
    """Take both kinds of lock without waiting. Errors: OSError when somebody else holds one."""
    import fcntl  # POSIX only, and only here

    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    # The layout of _WHOLE_FILE is that of 64-bit Linux; elsewhere take the traditional record lock.
    own_kind = getattr(fcntl, "F_OFD_SETLK", None) if sys.maxsize >= 2**32 else None
    if own_kind is None:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    else:
        fcntl.fcntl(descriptor, own_kind, _WHOLE_FILE.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))


def holder_in(listing: Path, identity: tuple[int, int]) -> int | None:
    """The process that holds a lock on this file (device, inode), as far as the kernel's list tells; see proc(5)."""
    device, inode = identity
    wanted = f"{os.major(device):02x}:{os.minor(device):02x}:{inode}"
    try:
        rows = [line.split() for line in listing.read_text().splitlines()]
    except OSError:  # not Linux
        return None
    # 1: FLOCK ADVISORY WRITE 708 08:01:131548 0 EOF. Locks of open file descriptions, and processes that this
    # namespace does not show, have no process there; this process may have got one of the two kinds of lock.
    pids = [int(row[4]) for row in rows if len(row) > 5 and row[5] == wanted and row[4].isdigit()]
    return next((pid for pid in pids if pid not in (0, os.getpid())), None)


def _give_up(files: Sequence[OsFile], held: tuple[int, int]) -> None:
    for file in files:
        file.close()
    _HELD.discard(held)


class OsFs:
    """Directories and names of the real file system. It has no state. Implements `Fs`."""

    def open(self, path: Path, *, create: bool = False, write: bool = False) -> OsFile:
        flags = os.O_RDWR if write or create else os.O_RDONLY
        with SystemCall(path, "create" if create else "open"):
            return OsFile(path, os.open(path, flags | (os.O_CREAT if create else 0), FILE_MODE))

    def exists(self, path: Path) -> bool:
        with SystemCall(path, "look up"):
            return path.exists()

    def listdir(self, path: Path) -> list[str]:
        with SystemCall(path, "list"):
            return sorted(os.listdir(path))

    def mkdir(self, path: Path) -> None:
        """See `Fs.mkdir`. It never replaces a file that is not a directory."""
        if self.exists(path):
            if path.is_dir():
                return
            raise StorageError(path, "is not a directory", repair="name a directory, or one that can be created")
        with SystemCall(path, "create the directory"):
            path.mkdir(exist_ok=True)

    def rename(self, old: Path, new: Path) -> None:
        with SystemCall(new, f"rename {old.name} to it"):
            os.replace(old, new)

    def remove(self, path: Path, *, missing_ok: bool = False) -> None:
        with SystemCall(path, "remove"):
            try:
                os.remove(path)
            except FileNotFoundError:
                if not missing_ok:
                    raise

    def sync_dir(self, path: Path) -> None:
        with SystemCall(path, "sync the directory"):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def read(self, path: Path) -> bytes:
        with closing(self.open(path)) as file:
            return read_small(file, path)

    def lock(self, path: Path) -> Lock:
        return OsLock(path)

    def mutex(self) -> AbstractContextManager[object]:
        return threading.Lock()
