"""The real file system: `pykraft.log.fs` on POSIX calls. Errors: see `pykraft.log.os_file`.

The lock on a data directory, which keeps out other nodes, Kafka's as well.

``fcntl`` is imported only where a lock is taken, so that the module can be imported on any system.

Source: POSIX ``open``, ``rename``, ``fsync``; Linux man-pages ``flock(2)`` and ``fcntl_locking(2)``; proc(5).
"""

from __future__ import annotations

import errno
import os
import sys
import threading
import weakref
from collections.abc import Sequence
from contextlib import AbstractContextManager, closing
from pathlib import Path
from struct import Struct
from typing import Final

from pykraft.errors import StorageError
from pykraft.log.fs import Lock, read_small
from pykraft.log.os_file import FILE_MODE, OsFile, SystemCall, identity_of

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
        path,
        f"cannot lock: {who} uses this directory",
        repair="stop it, or give this node a directory of its own",
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
    """Directories and names of the real file system. It has no state."""

    def open(self, path: Path, *, create: bool = False, write: bool = False) -> OsFile:
        """See `Fs.open`."""
        flags = os.O_RDWR if write or create else os.O_RDONLY
        with SystemCall(path, "create" if create else "open"):
            return OsFile(path, os.open(path, flags | (os.O_CREAT if create else 0), FILE_MODE))

    def exists(self, path: Path) -> bool:
        """See `Fs.exists`."""
        with SystemCall(path, "look up"):
            return path.exists()

    def listdir(self, path: Path) -> list[str]:
        """See `Fs.listdir`."""
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
        """See `Fs.rename`."""
        with SystemCall(new, f"rename {old.name} to it"):
            os.replace(old, new)

    def remove(self, path: Path, *, missing_ok: bool = False) -> None:
        """See `Fs.remove`."""
        with SystemCall(path, "remove"):
            try:
                os.remove(path)
            except FileNotFoundError:
                if not missing_ok:
                    raise

    def sync_dir(self, path: Path) -> None:
        """See `Fs.sync_dir`."""
        with SystemCall(path, "sync the directory"):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def read(self, path: Path) -> bytes:
        """See `Fs.read`."""
        with closing(self.open(path)) as file:
            return read_small(file, path)

    def lock(self, path: Path) -> Lock:
        """See `Fs.lock`."""
        return OsLock(path)

    def mutex(self) -> AbstractContextManager[object]:
        """See `Fs.mutex`."""
        return threading.Lock()
