"""A virtual disk with a page cache. It can lose power, fail, and lie.

It keeps the contract of `pykraft.log.fs` and makes the worst of it. After `VirtualDisk.lose_power`, each unsynced page
has any content that it had since it was last clean, or a mix of two; a size that was not synced may have any value in
between; and each rename, creation and removal in a directory since its last sync is there or not, independent of the
others. A kill (`drop_handles`) loses nothing, because the page cache belongs to the kernel. Both can happen in the
middle of any operation that changes the disk (`interrupt_within`). Open errors, a full disk and stalls are planned
(`IoErrors`); each raises a `DiskError`, so the simulator knows a program that ended because of its disk. A lie is told
after a sync of a file (`liar`).

This is the project's only model of a disk: worlds run on it, and so do the tests of everything that writes files.

Source: ALICE (OSDI 2014) and the fsync studies after it; dragonboat's power loss tests; Prabhakaran et al., IRON File
Systems (SOSP 2005); PostgreSQL's fsync failure of 2018.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from pathlib import Path
from random import Random
from typing import Final, TypeAlias

from pykraft.errors import CorruptionError, ReadError, StorageError
from pykraft.host.snapshots.startup_check import DAMAGED
from pykraft.sim.machine.inode import PAGE_SIZE_BYTES, Directory, DrawnFate, Fate, Inode
from pykraft.sim.scenario.scenario import Storage
from pykraft.types import Buffer

READ_ERROR: Final = "read error"
WRITE_ERROR: Final = "write error"
SYNC_ERROR: Final = "fsync error"
DISK_FULL: Final = "disk full"
NO_SNAPSHOT_ROOM: Final = "no room for snapshots"
SNAPSHOT_UNREADABLE: Final = "unreadable snapshots"
_WORDS: Final = {
    READ_ERROR: "cannot read: Input/output error",
    WRITE_ERROR: "cannot write: Input/output error",
    SYNC_ERROR: "cannot sync: Input/output error",
    DISK_FULL: "cannot write: No space left on device",
    NO_SNAPSHOT_ROOM: "cannot write: No space left on device",
    SNAPSHOT_UNREADABLE: "cannot read: Input/output error",
}


class DiskError(StorageError):
    """An error that a fault planned."""


class SnapshotDiskError(DiskError):
    """Only snapshots cannot be written or read: no reason to end."""


class IoErrors:
    """The errors of one disk."""

    def __init__(self) -> None:
        self.stalled_until_us = 0
        """Until this virtual time the disk carries out nothing."""
        self.on_error: Callable[[str], None] = lambda _: None
        """Called with the kind of each error that the disk gives."""
        self._left: dict[str, int] = {}
        self._concerns: dict[str, Callable[[Path], bool]] = {}
        """By kind: which files it concerns; a kind that is not here concerns all files."""

    def plan(self, kind: str, operations: int, *, concerns: Callable[[Path], bool] | None = None) -> None:
        """Let this many operations of this kind succeed; then all of them fail until `mend`.

        ``concerns``: only operations on these files are counted and fail.
        """
        self._left[kind] = operations
        self._concerns.pop(kind, None)
        if concerns is not None:
            self._concerns[kind] = concerns

    @property
    def is_planned(self) -> bool:
        """True when operations fail, now or later."""
        return bool(self._left)

    def mend_kind(self, kind: str) -> None:
        """Operations of this kind fail no more."""
        self._left.pop(kind, None)
        self._concerns.pop(kind, None)

    def mend(self) -> None:
        """Replace the disk, or give it room: nothing fails from now on."""
        self._left.clear()
        self._concerns.clear()
        self.stalled_until_us = 0

    def before_read(self, path: Path) -> None:
        """Errors: DiskError."""
        self._count(READ_ERROR, path)
        self._count(SNAPSHOT_UNREADABLE, path)

    def before_write(self, path: Path, *, is_growth: bool) -> None:
        """Errors: DiskError; on a full disk only for a file that grows."""
        self._count(WRITE_ERROR, path)
        if is_growth:
            self._count(DISK_FULL, path)
            self._count(NO_SNAPSHOT_ROOM, path)

    def before_sync(self, path: Path) -> None:
        """Errors: DiskError."""
        self._count(SYNC_ERROR, path)

    def _count(self, kind: str, path: Path) -> None:
        if kind not in self._left or (kind in self._concerns and not self._concerns[kind](path)):
            return
        self._left[kind] -= 1
        if self._left[kind] < 0:
            self.on_error(kind)
            is_of_snapshots = kind in {NO_SNAPSHOT_ROOM, SNAPSHOT_UNREADABLE}
            raise (SnapshotDiskError if is_of_snapshots else DiskError)(path, _WORDS[kind])


__all__ = ["PAGE_SIZE_BYTES", "Directory", "Inode", "Interrupted", "VirtualDisk", "VirtualFile"]

ROOT = Path("/")
"""The one directory that is there from the beginning."""


Tree: TypeAlias = "dict[Path, bytes | None]"
"""Bytes of files by path; None for directories."""


class Interrupted(BaseException):
    """The process ended in the middle of a file operation. A BaseException, so that no program catches it."""

    def __init__(self, *, loses_power: bool, kind: str | None = None) -> None:
        """``kind``: the fault kind to count this as; None when no fault asked for this one kind of operation."""
        super().__init__("power lost" if loses_power else "killed")
        self.loses_power = loses_power
        self.kind = kind


class VirtualFile:
    """A file handle. Using it after `close`, or after its process has ended, is a bug of the program.

    See `pykraft.log.fs.File`.
    """

    def __init__(self, disk: VirtualDisk, inode: Inode, path: Path, *, is_writable: bool) -> None:
        self._disk = disk
        self.inode = inode
        self._path = path
        self._is_writable = is_writable
        self._is_open = True
        self._incarnation = disk.incarnation

    def pread(self, size_bytes: int, position: int) -> bytes:
        self._check()
        assert size_bytes >= 0
        assert position >= 0
        self._disk.io_errors.before_read(self._path)
        if not self.inode.is_readable(size_bytes, position):
            raise ReadError(self._path, position=position, expected=f"{size_bytes} bytes", found="Input/output error")
        return bytes(self.inode.cached[position : position + size_bytes])

    def pwrite(self, parts: Sequence[Buffer], position: int) -> int:
        """See `pykraft.log.fs.File`; on an error or an interruption, a prefix of the data may be in the cache."""
        self._check(writes=True)
        data = b"".join(parts)
        try:
            self._disk.operate("pwrite", self._path)
            self._disk.io_errors.before_write(self._path, is_growth=position + len(data) > len(self.inode.cached))
        except (Interrupted, DiskError):
            self.inode.write(data[: self._disk.rng.randint(0, len(data))], position)
            raise
        self.inode.write(data, position)
        return len(data)

    def size(self) -> int:
        self._check()
        return len(self.inode.cached)

    def is_at(self, path: Path) -> bool:
        self._check()
        directory = self._disk.directory(path.parent)
        return directory is not None and directory.cached.get(path.name) is self.inode

    def truncate(self, size_bytes: int) -> None:
        self._check(writes=True)
        self._disk.operate("truncate", self._path)
        self._disk.io_errors.before_write(self._path, is_growth=False)
        self.inode.resize(size_bytes)

    def sync(self) -> None:
        self._check()
        try:
            self._disk.operate("sync", self._path)
            self._disk.io_errors.before_sync(self._path)
        except DiskError:
            self.inode.fail_sync(self._disk.rng)
            raise
        if self._disk.liar is None:
            self.inode.sync()
        else:
            before, dirty_pages = bytes(self.inode.synced), sorted(self.inode.dirty_pages)
            self.inode.sync()
            self._disk.liar(self._path, before, dirty_pages)

    def reserve(self, position: int, size_bytes: int) -> None:
        """See `pykraft.log.fs.File`: the simulated disk has no blocks to reserve."""

    def unreserve(self) -> None:
        """See `pykraft.log.fs.File`."""

    def uncache(self, position: int, size_bytes: int) -> None:
        """See `pykraft.log.fs.File`: a read finds the same bytes, cached or not."""

    def close(self) -> None:
        self._is_open = False

    def _check(self, *, writes: bool = False) -> None:
        assert self._incarnation == self._disk.incarnation, f"{self._path} is used by a process that is dead"
        assert self._is_open, f"{self._path} is used after close"
        assert self._is_writable or not writes, f"{self._path} was opened for reading"


class VirtualLock:
    """A lock that ends with its process. See `pykraft.log.fs.Lock`."""

    def __init__(self, disk: VirtualDisk, file: VirtualFile, path: Path) -> None:
        self._disk = disk
        self._file = file
        self._path = path

    def is_at_name(self) -> bool:
        return self._file.is_at(self._path)

    def release(self) -> None:
        self._disk.locks.discard(self._path)


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
        self._directories: dict[Path, Directory] = {ROOT: Directory()}
        self._unsynced: list[Path] = []
        """Directories whose parents were not synced since they were created."""
        self._removed: dict[Path, Directory] = {}
        """Removed directories, empty. A process that still holds one sees it again when it is created again."""
        self.locks: set[Path] = set()
        self._operations_left: int | None = None
        self._loses_power = False
        self._kind: str | None = None

    def drop_handles(self) -> None:
        """Kill the process: its handles and locks are gone; its writes remain in the page cache."""
        self.incarnation += 1
        self.locks.clear()
        self._operations_left = None

    def lose_power(self, fate: Fate | None = None) -> None:
        """Take the power: fate, or chance, decides what survives of everything that was not synced."""
        fate = fate or DrawnFate(self.rng, self._storage)
        self.drop_handles()
        for path in self._lost_directories(fate):
            self._remove_directory(path)
        self._unsynced = []
        inodes: dict[int, Inode] = {}
        for path in sorted(self._directories):
            directory = self._directories[path]
            directory.lose(fate)
            # Look after the loss: a file that was created and removed since the last sync may be back, and a file may
            # have two names.
            inodes.update((id(inode), inode) for inode in directory.cached.values())
        for inode in inodes.values():
            if inode.lose(fate):
                self.on_torn()

    def left(self, fate: Fate) -> Tree:
        """What a power loss now would leave; the disk stays as it is."""
        lost = self._lost_directories(fate)
        tree: Tree = {}
        for path in sorted(self._directories.keys() - lost):
            tree[path] = None
            for name, inode in self._directories[path].left(fate).items():
                tree[path / name] = bytes(inode.left(fate).content)
        return tree

    def _lost_directories(self, fate: Fate) -> list[Path]:
        lost = [each for each in self._unsynced if not fate.keeps_name()]
        return [each for each in self._directories if any(each.is_relative_to(top) for top in lost)]

    def wipe(self) -> None:
        """Replace the disk by an empty one."""
        self.drop_handles()
        self._unsynced = []
        for path in list(self._directories):
            self._remove_directory(path)
        self._directories[ROOT] = self._removed.pop(ROOT)

    def put_back(self, copy: Tree) -> None:
        """Replace everything by an earlier copy, as `left` returned it; all of it is durable."""
        self.wipe()
        for path, content in sorted(copy.items()):
            if content is None:
                self._directories[path] = self._removed.pop(path, Directory())
            else:
                file = Inode()
                file.write(content, 0)
                file.sync()
                self._directories[path.parent].change((path.name, file))
        for directory in self._directories.values():
            directory.sync()

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
        """True when this disk caused the error: it raised it, or it holds other bytes than were synced.

        A disk without room for snapshots is no reason to end.
        """
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, SnapshotDiskError):
                return False
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

    def operate(self, operation: str, path: Path, new_path: Path | None = None) -> None:
        """Count one operation; a rename has two paths. Raises Interrupted when the process is to end in this one."""
        del operation, new_path  # They are for tests.
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

    def content(self, path: Path) -> bytearray | None:
        """A file as its node would read it, for oracles; None when it does not exist."""
        directory = self._directories.get(path.parent)
        inode = directory.cached.get(path.name) if directory is not None else None
        return None if inode is None else inode.cached

    def open(self, path: Path, *, create: bool = False, write: bool = False) -> VirtualFile:
        directory = self._directory(path.parent)
        if path.name not in directory.cached:
            if not create:
                raise StorageError(path, "cannot open: no such file")
            self.operate("create", path)
            self.io_errors.before_write(path, is_growth=True)
            directory.change((path.name, Inode()))
        return VirtualFile(self, directory.cached[path.name], path, is_writable=create or write)

    def exists(self, path: Path) -> bool:
        parent = self._directories.get(path.parent)
        return path in self._directories or (parent is not None and path.name in parent.cached)

    def listdir(self, path: Path) -> list[str]:
        nested = {known.relative_to(path).parts[0] for known in self._directories if path in known.parents}
        return sorted(nested | self._directory(path).cached.keys())

    def mkdir(self, path: Path) -> None:
        if path in self._directories:
            return
        self._directory(path.parent)
        self.operate("mkdir", path)
        self.io_errors.before_write(path, is_growth=True)
        self._directories[path] = self._removed.pop(path, Directory())
        self._unsynced.append(path)

    def rename(self, old: Path, new: Path) -> None:
        assert old.parent == new.parent
        directory = self._directory(old.parent)
        if old.name not in directory.cached:
            raise StorageError(old, "cannot rename: no such file")
        self.operate("rename", old, new)
        self.io_errors.before_write(new, is_growth=False)
        directory.change((old.name, None), (new.name, directory.cached[old.name]))

    def remove(self, path: Path, *, missing_ok: bool = False) -> None:
        directory = self._directory(path.parent)
        if path.name not in directory.cached:
            if missing_ok:
                return
            raise StorageError(path, "cannot remove: no such file")
        self.operate("remove", path)
        self.io_errors.before_write(path, is_growth=False)
        directory.change((path.name, None))

    def sync_dir(self, path: Path) -> None:
        directory = self._directory(path)
        self.operate("sync_dir", path)
        self.io_errors.before_sync(path)
        directory.sync()
        self._unsynced = [each for each in self._unsynced if each.parent != path]

    def read(self, path: Path) -> bytes:
        with closing(self.open(path)) as file:
            if file.size() > self._storage.small_file_size_bytes_max:
                raise StorageError(path, "is larger than what is read as a whole")
            return file.pread(file.size(), 0)

    def lock(self, path: Path) -> VirtualLock:
        if path in self.locks:
            raise StorageError(path, "cannot lock: it is held")
        file = self.open(path, create=True)
        self.locks.add(path)
        return VirtualLock(self, file, path)

    def mutex(self) -> AbstractContextManager[object]:
        """See `pykraft.log.fs.Fs`. A world has one thread."""
        return nullcontext()

    def _directory(self, path: Path) -> Directory:
        if path not in self._directories:
            raise StorageError(path, "no such directory")
        return self._directories[path]
