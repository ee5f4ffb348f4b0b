"""A virtual disk with a page cache: what was not synced may be lost, page by page, when the power goes.

The contract of `pykraft.log.fs`, made hostile: after `VirtualDisk.lose_power` each unsynced page is kept or
lost on its own, a page may be torn at a sector, an unsynced size may be anything in between, and of the
renames, creations and removals in a directory since its last sync only a random number of the first
survive. A kill (`drop_handles`) loses nothing: the page cache belongs to the kernel. Either may come in the
middle of any operation that changes the disk (`interrupt_within`).

Source: ALICE (OSDI 2014) and the fsync studies after it; dragonboat's power loss tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from pykraft.errors import StorageError
from pykraft.types import Buffer

PAGE_SIZE_BYTES = 4_096
SECTOR_SIZE_BYTES = 512


class Interrupted(BaseException):
    """The process ended in the middle of a file operation; not an error that a program could catch."""

    def __init__(self, *, loses_power: bool) -> None:
        super().__init__("power lost" if loses_power else "killed")
        self.loses_power = loses_power


@dataclass(slots=True, eq=False)
class Inode:
    """One file: what the kernel shows and what is on the platter."""

    cached: bytearray = field(default_factory=bytearray)
    synced: bytearray = field(default_factory=bytearray)
    dirty_pages: set[int] = field(default_factory=set)
    version: int = 0

    def write(self, data: bytes, position: int) -> None:
        """Into the cache only."""
        if position > len(self.cached):
            self.cached.extend(bytes(position - len(self.cached)))
        self.cached[position : position + len(data)] = data
        self.dirty_pages.update(range(position // PAGE_SIZE_BYTES, (position + len(data)) // PAGE_SIZE_BYTES + 1))

    def resize(self, size_bytes: int) -> None:
        """Cut or grow with zeros, in the cache only."""
        before = len(self.cached)
        if size_bytes < before:
            del self.cached[size_bytes:]
        else:
            self.cached.extend(bytes(size_bytes - before))
        low, high = sorted((before, size_bytes))
        self.dirty_pages.update(range(low // PAGE_SIZE_BYTES, high // PAGE_SIZE_BYTES + 1))

    def sync(self) -> None:
        """Everything cached reaches the platter."""
        if len(self.synced) > len(self.cached):
            del self.synced[len(self.cached) :]
        elif len(self.synced) < len(self.cached):
            self.synced.extend(bytes(len(self.cached) - len(self.synced)))
        for page in self.dirty_pages:
            start = page * PAGE_SIZE_BYTES
            self.synced[start : start + PAGE_SIZE_BYTES] = self.cached[start : start + PAGE_SIZE_BYTES]
        self.dirty_pages.clear()
        self.version += 1

    def lose(self, rng: Random) -> None:
        """The power goes: unsynced pages are decided one by one."""
        low, high = sorted((len(self.synced), len(self.cached)))
        size_bytes = rng.choice((low, high, rng.randint(low, high)))
        kept = bytearray(self.synced[:size_bytes].ljust(size_bytes, b"\0"))
        for page in sorted(self.dirty_pages):
            start = page * PAGE_SIZE_BYTES
            end = min(start + _surviving_size_bytes(rng), size_bytes, len(self.cached))
            if end > start:
                kept[start:end] = self.cached[start:end]
        self.synced = kept
        self.cached = bytearray(kept)
        self.dirty_pages.clear()
        self.version += 1


def _surviving_size_bytes(rng: Random) -> int:
    """How much of an unsynced page reached the platter: all, nothing, or its first sectors."""
    fate = rng.random()
    if fate < 0.4:
        return PAGE_SIZE_BYTES
    return rng.randrange(PAGE_SIZE_BYTES // SECTOR_SIZE_BYTES) * SECTOR_SIZE_BYTES if fate < 0.6 else 0


class VirtualFile:
    """A handle; dead once its process is."""

    def __init__(self, disk: VirtualDisk, inode: Inode, path: Path) -> None:
        self._disk = disk
        self._inode = inode
        self._path = path
        self._incarnation = disk.incarnation

    def pread(self, size_bytes: int, position: int) -> bytes:
        """See `pykraft.log.fs.File`."""
        self._alive()
        return bytes(self._inode.cached[position : position + size_bytes])

    def pwrite(self, parts: Sequence[Buffer], position: int) -> int:
        """See `pykraft.log.fs.File`; when the process ends in it, a first part may be in the cache."""
        self._alive()
        data = b"".join(parts)
        try:
            self._disk.operate()
        except Interrupted:
            self._inode.write(data[: self._disk.rng.randint(0, len(data))], position)
            raise
        self._inode.write(data, position)
        return len(data)

    def size(self) -> int:
        """See `pykraft.log.fs.File`."""
        self._alive()
        return len(self._inode.cached)

    def truncate(self, size_bytes: int) -> None:
        """See `pykraft.log.fs.File`."""
        self._alive()
        self._disk.operate()
        self._inode.resize(size_bytes)

    def sync(self) -> None:
        """See `pykraft.log.fs.File`."""
        self._alive()
        self._disk.operate()
        self._inode.sync()

    def close(self) -> None:
        """See `pykraft.log.fs.File`."""

    def _alive(self) -> None:
        assert self._incarnation == self._disk.incarnation, f"{self._path} is used by a process that is dead"


Change = tuple[tuple[str, Inode | None], ...]
"""Names that change together: a creation or removal is one, a rename is two."""


@dataclass(slots=True, kw_only=True)
class Directory:
    """Names: as the kernel shows them, as the platter has them, and what was changed in between."""

    cached: dict[str, Inode] = field(default_factory=dict)
    synced: dict[str, Inode] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)

    def change(self, *names: tuple[str, Inode | None]) -> None:
        """One atomic change, in the cache only."""
        _apply(self.cached, names)
        self.changes.append(names)

    def sync(self) -> None:
        """All names reach the platter."""
        self.synced = dict(self.cached)
        self.changes.clear()

    def lose(self, rng: Random) -> None:
        """Of the changes since the last sync, a random number of the first survive."""
        for change in self.changes[: rng.randint(0, len(self.changes))]:
            _apply(self.synced, change)
        self.cached = dict(self.synced)
        self.changes.clear()


def _apply(names: dict[str, Inode], change: Change) -> None:
    for name, inode in change:
        if inode is None:
            names.pop(name, None)
        else:
            names[name] = inode


class VirtualLock:
    """A lock that ends with its process."""

    def __init__(self, locks: set[Path], path: Path) -> None:
        self._locks = locks
        self._path = path

    def release(self) -> None:
        """See `pykraft.log.fs.Lock`."""
        self._locks.discard(self._path)


class VirtualDisk:
    """The disk of one node: the `pykraft.log.fs.Fs` of its processes, one after the other."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.incarnation = 0
        self._directories: dict[Path, Directory] = {}
        self._locks: set[Path] = set()
        self._operations_left: int | None = None
        self._loses_power = False

    def drop_handles(self) -> None:
        """The process is killed: its handles and locks are gone, its writes are not."""
        self.incarnation += 1
        self._locks.clear()
        self._operations_left = None

    def lose_power(self) -> None:
        """The machine goes down: what was not synced is up to chance."""
        self.drop_handles()
        for path in sorted(self._directories):
            directory = self._directories[path]
            inodes = {id(inode): inode for inode in (*directory.cached.values(), *directory.synced.values())}
            directory.lose(self.rng)
            for inode in inodes.values():
                inode.lose(self.rng)

    def interrupt_within(self, operations: int, *, loses_power: bool) -> None:
        """Let the process end in the middle of the operation that many from now, killed or without power."""
        self._operations_left = operations
        self._loses_power = loses_power

    def let_be(self) -> None:
        """Take back what `interrupt_within` announced."""
        self._operations_left = None

    def operate(self) -> None:
        """Count one operation. Raises Interrupted when it is the one that does not happen."""
        if self._operations_left is None:
            return
        self._operations_left -= 1
        if self._operations_left < 0:
            raise Interrupted(loses_power=self._loses_power)

    def directory(self, path: Path) -> Directory | None:
        """A directory as it is, for oracles; None while there is none."""
        return self._directories.get(path)

    def open(self, path: Path, *, create: bool = False, write: bool = False) -> VirtualFile:
        """See `pykraft.log.fs.Fs`."""
        del write
        directory = self._directory(path.parent)
        if path.name not in directory.cached:
            if not create:
                raise StorageError(path, "cannot open: no such file")
            self.operate()
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
        for directory in (path, *path.parents):
            self._directories.setdefault(directory, Directory())

    def rename(self, old: Path, new: Path) -> None:
        """See `pykraft.log.fs.Fs`."""
        assert old.parent == new.parent
        directory = self._directory(old.parent)
        if old.name not in directory.cached:
            raise StorageError(old, "cannot rename: no such file")
        self.operate()
        directory.change((old.name, None), (new.name, directory.cached[old.name]))

    def remove(self, path: Path) -> None:
        """See `pykraft.log.fs.Fs`."""
        directory = self._directory(path.parent)
        if path.name not in directory.cached:
            raise StorageError(path, "cannot remove: no such file")
        self.operate()
        directory.change((path.name, None))

    def sync_dir(self, path: Path) -> None:
        """See `pykraft.log.fs.Fs`."""
        self.operate()
        self._directory(path).sync()

    def read(self, path: Path) -> bytes:
        """See `pykraft.log.fs.Fs`."""
        file = self.open(path)
        return file.pread(file.size(), 0)

    def lock(self, path: Path) -> VirtualLock:
        """See `pykraft.log.fs.Fs`."""
        if path in self._locks:
            raise StorageError(path, "cannot lock: it is held")
        self._locks.add(path)
        self._directories.setdefault(path.parent, Directory()).cached.setdefault(path.name, Inode())
        return VirtualLock(self._locks, path)

    def _directory(self, path: Path) -> Directory:
        if path not in self._directories:
            raise StorageError(path, "no such directory")
        return self._directories[path]
