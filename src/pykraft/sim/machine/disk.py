"""A virtual disk with a page cache. It can lose power, fail, and lie.

It keeps the contract of `pykraft.log.fs` and makes the worst of it. After `VirtualDisk.lose_power`, each unsynced page
is kept, lost or torn independently; a size that was not synced may have any value in between; and of the renames,
creations and removals in a directory since its last sync, only the first few (a random number) survive. A kill
(`drop_handles`) loses nothing, because the page cache belongs to the kernel. Both can happen in the middle of any
operation that changes the disk (`interrupt_within`). Open errors come from `pykraft.sim.machine.io_errors`. A lie is
told after a sync of a file (`liar`).

Source: ALICE (OSDI 2014) and the fsync studies after it; dragonboat's power loss tests.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from random import Random

from pykraft.errors import CorruptionError, ReadError, StorageError
from pykraft.host.snapshots.startup_check import DAMAGED
from pykraft.sim.machine.inode import PAGE_SIZE_BYTES, SECTOR_SIZE_BYTES, Directory, Inode
from pykraft.sim.machine.io_errors import DiskError, IoErrors
from pykraft.sim.scenario.scenario import Storage
from pykraft.types import Buffer

__all__ = ["PAGE_SIZE_BYTES", "SECTOR_SIZE_BYTES", "Directory", "Inode", "Interrupted", "VirtualDisk", "VirtualFile"]


LOST_PROBABILITY = 0.5
"""Probability that a power loss removes a directory whose parent was not synced."""


class Interrupted(BaseException):
    """The process ended in the middle of a file operation. A BaseException, so that no program catches it."""

    def __init__(self, *, loses_power: bool, kind: str | None = None) -> None:
        """``kind``: the fault kind to count this as; None when no fault asked for this one kind of operation."""
        super().__init__("power lost" if loses_power else "killed")
        self.loses_power = loses_power
        self.kind = kind


class VirtualFile:
    """A file handle; it must not be used after its process has ended."""

    def __init__(self, disk: VirtualDisk, inode: Inode, path: Path) -> None:
        self._disk = disk
        self._inode = inode
        self._path = path
        self._incarnation = disk.incarnation

    def pread(self, size_bytes: int, position: int) -> bytes:
        """See `pykraft.log.fs.File`."""
        self._alive()
        self._disk.io_errors.before_read(self._path)
        if not self._inode.is_readable(size_bytes, position):
            raise ReadError(self._path, position=position, expected=f"{size_bytes} bytes", found="Input/output error")
        return bytes(self._inode.cached[position : position + size_bytes])

    def pwrite(self, parts: Sequence[Buffer], position: int) -> int:
        """See `pykraft.log.fs.File`; on an error or an interruption, a prefix of the data may be in the cache."""
        self._alive()
        data = b"".join(parts)
        try:
            self._disk.operate(self._path)
            self._disk.io_errors.before_write(self._path, is_growth=position + len(data) > len(self._inode.cached))
        except (Interrupted, DiskError):
            self._inode.write(data[: self._disk.rng.randint(0, len(data))], position)
            raise
        self._inode.write(data, position)
        return len(data)

    def size(self) -> int:
        """See `pykraft.log.fs.File`."""
        self._alive()
        return len(self._inode.cached)

    def is_at(self, path: Path) -> bool:
        """See `pykraft.log.fs.File`."""
        self._alive()
        directory = self._disk.directory(path.parent)
        return directory is not None and directory.cached.get(path.name) is self._inode

    def truncate(self, size_bytes: int) -> None:
        """See `pykraft.log.fs.File`."""
        self._alive()
        self._disk.operate(self._path)
        self._inode.resize(size_bytes)

    def sync(self) -> None:
        """See `pykraft.log.fs.File`."""
        self._alive()
        self._disk.operate(self._path)
        try:
            self._disk.io_errors.before_sync(self._path)
        except DiskError:
            self._inode.fail_sync(self._disk.rng)
            raise
        if self._disk.liar is None:
            self._inode.sync()
        else:
            before, dirty_pages = bytes(self._inode.synced), sorted(self._inode.dirty_pages)
            self._inode.sync()
            self._disk.liar(self._path, before, dirty_pages)

    def close(self) -> None:
        """See `pykraft.log.fs.File`."""

    def _alive(self) -> None:
        assert self._incarnation == self._disk.incarnation, f"{self._path} is used by a process that is dead"


class VirtualLock:
    """A lock that ends with its process."""

    def __init__(self, locks: set[Path], path: Path) -> None:
        self._locks = locks
        self._path = path

    def release(self) -> None:
        """See `pykraft.log.fs.Lock`."""
        self._locks.discard(self._path)


class VirtualDisk:
    """The disk of one node: the `pykraft.log.fs.Fs` of each of its processes in turn."""

    def __init__(self, rng: Random, storage: Storage | None = None) -> None:
        self.rng = rng
        self.io_errors = IoErrors()
        self.liar: Callable[[Path, bytes, Sequence[int]], None] | None = None
        """Called after the sync of a file, with its path, its former synced bytes, and the pages that were written."""
        self.on_torn: Callable[[], None] = lambda: None
        """Called when a loss of power tore a page."""
        self.on_operation: Callable[[Path], None] | None = None
        """Called with the path of a file or a name that is about to change."""
        self.incarnation = 0
        self._storage = storage or Storage()
        self._directories: dict[Path, Directory] = {}
        self._unsynced: list[Path] = []
        """Directories whose parents were not synced since they were created."""
        self._removed: dict[Path, Directory] = {}
        """Removed directories, empty. A process that still holds one sees it again when it is created again."""
        self._locks: set[Path] = set()
        self._operations_left: int | None = None
        self._loses_power = False
        self._kind: str | None = None

    def drop_handles(self) -> None:
        """Kill the process: its handles and locks are gone; its writes remain in the page cache."""
        self.incarnation += 1
        self._locks.clear()
        self._operations_left = None

    def lose_power(self) -> None:
        """Take the power: chance decides what survives of everything that was not synced."""
        self.drop_handles()
        for path in sorted(self._directories):
            directory = self._directories[path]
            inodes = {id(inode): inode for inode in (*directory.cached.values(), *directory.synced.values())}
            directory.lose(self.rng)
            for inode in inodes.values():
                if inode.lose(self.rng, self._storage):
                    self.on_torn()
        lost, self._unsynced = [each for each in self._unsynced if self.rng.random() < LOST_PROBABILITY], []
        for path in [each for each in self._directories if any(each.is_relative_to(top) for top in lost)]:
            self._remove_directory(path)

    def wipe(self) -> None:
        """Replace the disk by an empty one."""
        self.drop_handles()
        self._unsynced = []
        for path in list(self._directories):
            self._remove_directory(path)

    def _remove_directory(self, path: Path) -> None:
        directory = self._removed[path] = self._directories.pop(path)
        directory.cached.clear()
        directory.sync()

    @property
    def is_rotten(self) -> bool:
        """True when a file on the platter differs from what was synced; one that a start set aside does not count."""
        return any(
            inode.is_rotten and not name.endswith(DAMAGED)
            for each in self._directories.values()
            for name, inode in each.synced.items()
        )

    def explains(self, error: BaseException) -> bool:
        """True when this disk caused the error: it raised it, or it holds other bytes than were synced."""
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, DiskError) or (isinstance(cause, CorruptionError) and self.is_rotten):
                return True
            cause = cause.__cause__ or cause.__context__
        return False

    def interrupt_within(self, operations: int, *, loses_power: bool, kind: str | None = None) -> None:
        """End the process in the middle of the operation that is this many from now, by a kill or a power loss."""
        self._operations_left = operations
        self._loses_power = loses_power
        self._kind = kind

    def let_be(self) -> None:
        """Cancel `interrupt_within`."""
        self._operations_left = None

    def operate(self, path: Path) -> None:
        """Count one operation. Raises Interrupted when the process is to end in this one."""
        if self.on_operation is not None:
            self.on_operation(path)
        if self._operations_left is None:
            return
        self._operations_left -= 1
        if self._operations_left < 0:
            raise Interrupted(loses_power=self._loses_power, kind=self._kind)

    def directory(self, path: Path) -> Directory | None:
        """A directory as it is, for oracles; None when it does not exist."""
        return self._directories.get(path)

    def open(self, path: Path, *, create: bool = False, write: bool = False) -> VirtualFile:
        """See `pykraft.log.fs.Fs`."""
        del write
        directory = self._directory(path.parent)
        if path.name not in directory.cached:
            if not create:
                raise StorageError(path, "cannot open: no such file")
            self.operate(path)
            self.io_errors.before_write(path, is_growth=True)
            directory.change((path.name, Inode()))
        return VirtualFile(self, directory.cached[path.name], path)

    def exists(self, path: Path) -> bool:
        """See `pykraft.log.fs.Fs`."""
        parent = self._directories.get(path.parent)
        return path in self._directories or (parent is not None and path.name in parent.cached)

    def listdir(self, path: Path) -> list[str]:
        """See `pykraft.log.fs.Fs`."""
        nested = {known.relative_to(path).parts[0] for known in self._directories if path in known.parents}
        return sorted(nested | self._directory(path).cached.keys())

    def mkdir(self, path: Path) -> None:
        """See `pykraft.log.fs.Fs`."""
        if path in self._directories:
            return
        for parent in path.parents:  # The directories that a test does not sync are not reported.
            self._directories.setdefault(parent, Directory())
        self.operate(path)
        self._directories[path] = self._removed.pop(path, Directory())
        self._unsynced.append(path)

    def rename(self, old: Path, new: Path) -> None:
        """See `pykraft.log.fs.Fs`."""
        assert old.parent == new.parent
        directory = self._directory(old.parent)
        if old.name not in directory.cached:
            raise StorageError(old, "cannot rename: no such file")
        self.operate(old)
        directory.change((old.name, None), (new.name, directory.cached[old.name]))

    def remove(self, path: Path, *, missing_ok: bool = False) -> None:
        """See `pykraft.log.fs.Fs`."""
        directory = self._directory(path.parent)
        if path.name not in directory.cached:
            if missing_ok:
                return
            raise StorageError(path, "cannot remove: no such file")
        self.operate(path)
        directory.change((path.name, None))

    def sync_dir(self, path: Path) -> None:
        """See `pykraft.log.fs.Fs`."""
        self.operate(path)
        self.io_errors.before_sync(path)
        self._directory(path).sync()
        self._unsynced = [each for each in self._unsynced if each.parent != path]

    def read(self, path: Path) -> bytes:
        """See `pykraft.log.fs.Fs`."""
        file = self.open(path)
        if file.size() > self._storage.small_file_size_bytes_max:
            raise StorageError(path, "is larger than what is read as a whole")
        return file.pread(file.size(), 0)

    def lock(self, path: Path) -> VirtualLock:
        """See `pykraft.log.fs.Fs`."""
        if path in self._locks:
            raise StorageError(path, "cannot lock: it is held")
        self._locks.add(path)
        self._directories.setdefault(path.parent, Directory()).cached.setdefault(path.name, Inode())
        return VirtualLock(self._locks, path)

    def mutex(self) -> AbstractContextManager[object]:
        """See `pykraft.log.fs.Fs`. A world has one thread."""
        return nullcontext()

    def _directory(self, path: Path) -> Directory:
        if path not in self._directories:
            raise StorageError(path, "no such directory")
        return self._directories[path]
