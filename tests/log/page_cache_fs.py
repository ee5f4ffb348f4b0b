"""An in-memory file system that loses unsynced data: the test double of the crash tests.

What a process writes is in the page cache: it survives `PageCacheFs.kill`, and `PageCacheFs.power_loss` keeps of it
what a real disk might have kept. For each page of 4 KiB that was not synced: any of its versions since the last sync,
or a torn mix of two; for the size of a file: any since; for each create, rename and remove that was not synced with
its directory: done or not, independent of the others. What was synced is never lost. A sync that fails drops the
pages and succeeds when it is repeated, as Linux does.

Source: "All File Systems Are Not Created Equal" (OSDI 2014); PostgreSQL's fsync failure of 2018.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from pykraft.errors import ReadError, StorageError
from pykraft.types import Buffer

PAGE_SIZE_BYTES = 4096


class PowerLossError(Exception):
    """The operation that was told to be the last one."""


class Inode:
    """One file's bytes: as processes see them, and what the disk may hold of them."""

    def __init__(self) -> None:
        self.data = bytearray()
        self._durable = b""
        self._versions: dict[int, list[bytes]] = {}
        self._sizes = [0]

    def write(self, data: bytes, position: int) -> None:
        if position > len(self.data):
            self.data.extend(bytes(position - len(self.data)))
        self.data[position : position + len(data)] = data
        self._touch(position, position + len(data))

    def truncate(self, size_bytes: int) -> None:
        before = len(self.data)
        del self.data[size_bytes:]
        self.data.extend(bytes(size_bytes - len(self.data)))
        self._touch(min(before, size_bytes), max(before, size_bytes))

    def sync(self) -> None:
        self._durable = bytes(self.data)
        self._forget_versions()

    def fail_sync(self) -> None:
        self._forget_versions()

    def lose_power(self, random: Random) -> None:
        size_bytes = random.choice(self._sizes)
        kept = bytearray(self._durable.ljust(max(size_bytes, len(self._durable)), b"\0"))
        for page, versions in self._versions.items():
            start, end = page * PAGE_SIZE_BYTES, (page + 1) * PAGE_SIZE_BYTES
            choices = [bytes(kept[start:end]), *versions]
            one, other = (random.choice(choices).ljust(PAGE_SIZE_BYTES, b"\0") for _ in range(2))
            torn_at = random.choice([0, random.randrange(PAGE_SIZE_BYTES + 1), PAGE_SIZE_BYTES])
            kept = kept.ljust(end, b"\0")
            kept[start:end] = one[:torn_at] + other[torn_at:]
        self.data = kept[:size_bytes]
        self._durable = bytes(self.data)
        self._forget_versions()

    def _forget_versions(self) -> None:
        self._versions.clear()
        self._sizes = [len(self._durable)]

    def _touch(self, start: int, end: int) -> None:
        if start < end:
            for page in range(start // PAGE_SIZE_BYTES, (end - 1) // PAGE_SIZE_BYTES + 1):
                content = bytes(self.data[page * PAGE_SIZE_BYTES : (page + 1) * PAGE_SIZE_BYTES])
                if content.strip(b"\0") or page * PAGE_SIZE_BYTES < len(self._durable):
                    self._versions.setdefault(page, []).append(content)
        self._sizes.append(len(self.data))


class PageFile:
    """An open file of a `PageCacheFs`; used after a kill or power loss it is a bug of the test."""

    def __init__(self, fs: PageCacheFs, path: Path, inode: Inode, *, is_writable: bool) -> None:
        self._fs = fs
        self._life = fs.life
        self._path = path
        self._inode = inode
        self._is_writable = is_writable
        self._is_open = True

    def pread(self, size_bytes: int, position: int) -> bytes:
        self._check()
        assert size_bytes >= 0
        assert position >= 0
        lost = self._fs.lost.get(self._path.name, range(0))
        if max(lost.start, position) < min(lost.stop, position + size_bytes, len(self._inode.data)):
            raise ReadError(self._path, position=position, expected=f"{size_bytes} bytes", found="Input/output error")
        return bytes(self._inode.data[position : position + size_bytes])

    def pwrite(self, parts: Sequence[Buffer], position: int) -> int:
        self._check(writes=True)
        data = b"".join(parts)
        self._fs.count("pwrite", self._path)
        room_bytes = self._fs.room_bytes()
        self._inode.write(data[:room_bytes], position)
        if len(data) > room_bytes:
            raise StorageError(self._path, f"cannot write at {position}: No space left on device")
        return len(data)

    def size(self) -> int:
        self._check()
        return len(self._inode.data)

    def is_at(self, path: Path) -> bool:
        self._check()
        return self._fs.names(path, self._inode)

    def truncate(self, size_bytes: int) -> None:
        self._check(writes=True)
        self._fs.count("truncate", self._path)
        self._inode.truncate(size_bytes)

    def sync(self) -> None:
        self._check()
        try:
            self._fs.count("sync", self._path)
        except StorageError:
            self._inode.fail_sync()
            raise
        self._inode.sync()

    def close(self) -> None:
        self._is_open = False

    def _check(self, *, writes: bool = False) -> None:
        assert self._is_open, f"{self._path} is used after close"
        assert self._life == self._fs.life, f"{self._path} is used by a dead process"
        assert self._is_writable or not writes, f"{self._path} was opened for reading"


@dataclass(slots=True)
class PageLock:
    """A lock that `kill` and `power_loss` drop."""

    fs: PageCacheFs
    path: Path

    def release(self) -> None:
        self.fs.locks.discard(self.path)


@dataclass(slots=True)
class _Entries:
    """Names of one directory: as processes see them, as the disk has them, and what lies between."""

    seen: dict[str, Inode] = field(default_factory=dict)
    durable: dict[str, Inode] = field(default_factory=dict)
    changes: list[Callable[[dict[str, Inode]], object]] = field(default_factory=list)

    def change(self, change: Callable[[dict[str, Inode]], object]) -> None:
        change(self.seen)
        self.changes.append(change)

    def sync(self) -> None:
        self.durable = dict(self.seen)
        self.changes.clear()

    def lose_power(self, random: Random) -> None:
        for change in self.changes:
            if random.random() < 0.5:
                change(self.durable)
        self.seen = dict(self.durable)
        self.changes.clear()


class PageCacheFs:
    """See the module. ``operations`` lists (operation, file name) of everything that changes the disk."""

    def __init__(self) -> None:
        self.life = 0
        self.operations: list[tuple[str, str]] = []
        self.locks: set[Path] = set()
        self.capacity_bytes: int | None = None
        self.last_operation: int | None = None
        """Raise PowerLossError instead of the operation after this many."""
        self.lost: dict[str, range] = {}
        """By name of a file: bytes of it that the disk cannot read any more."""
        self.fail: Callable[[str, Path], bool] = lambda _operation, _path: False
        """Which operations raise StorageError."""
        self._directories: dict[Path, _Entries] = {}

    def kill(self) -> None:
        """Kill -9: the process is gone, the page cache stays."""
        self.life += 1
        self.locks.clear()
        self.last_operation = None

    def power_loss(self, random: Random) -> None:
        """Keep what was synced and any part of the rest."""
        self.kill()
        for _, entries in sorted(self._directories.items()):
            entries.lose_power(random)
        inodes = {id(inode): inode for entries in self._directories.values() for inode in entries.seen.values()}
        for inode in inodes.values():
            inode.lose_power(random)

    def count(self, operation: str, path: Path) -> None:
        if self.last_operation is not None and len(self.operations) >= self.last_operation:
            raise PowerLossError(f"instead of {operation} {path.name}")
        self.operations.append((operation, path.name))
        if self.fail(operation, path):
            raise StorageError(path, f"cannot {operation}: Input/output error")

    def used_bytes(self) -> int:
        """Bytes on the disk; the zeros at the end of a file take none."""
        inodes = [inode for entries in self._directories.values() for inode in entries.seen.values()]
        return sum(len(inode.data.rstrip(b"\0")) for inode in inodes)

    def room_bytes(self) -> int:
        """Bytes that can still be written."""
        return 2**62 if self.capacity_bytes is None else max(self.capacity_bytes - self.used_bytes(), 0)

    def open(self, path: Path, *, create: bool = False, write: bool = False) -> PageFile:
        entries = self._entries(path)
        if path.name not in entries.seen:
            if not create:
                raise StorageError(path, "cannot open: No such file or directory")
            self.count("create", path)
            inode = Inode()
            entries.change(lambda names: names.__setitem__(path.name, inode))
        return PageFile(self, path, entries.seen[path.name], is_writable=create or write)

    def exists(self, path: Path) -> bool:
        return path in self._directories or (
            path.parent in self._directories and path.name in self._directories[path.parent].seen
        )

    def listdir(self, path: Path) -> list[str]:
        return sorted(self._directories[path].seen)

    def mkdir(self, path: Path) -> None:
        for directory in (path, *path.parents):
            self._directories.setdefault(directory, _Entries())

    def rename(self, old: Path, new: Path) -> None:
        assert old.parent == new.parent
        inode = self._inode(old)
        self.count("rename", new)

        def change(names: dict[str, Inode]) -> None:
            names.pop(old.name, None)
            names[new.name] = inode

        self._entries(new).change(change)

    def remove(self, path: Path, *, missing_ok: bool = False) -> None:
        if missing_ok and not self.exists(path):
            return
        self._inode(path)
        self.count("remove", path)
        self._entries(path).change(lambda names: names.pop(path.name, None))

    def sync_dir(self, path: Path) -> None:
        self.count("sync_dir", path)
        self._directories[path].sync()

    def read(self, path: Path) -> bytes:
        return bytes(self._inode(path).data)

    def write(self, path: Path, content: bytes) -> None:
        """Put a file there, durably and uncounted: how tests prepare a directory or damage a file."""
        self.mkdir(path.parent)
        entries = self._entries(path)
        inode = entries.seen.get(path.name) or Inode()
        inode.data = bytearray(content)
        inode.sync()
        entries.seen[path.name] = entries.durable[path.name] = inode

    def lock(self, path: Path) -> PageLock:
        if path in self.locks:
            raise StorageError(path, "cannot lock: Resource temporarily unavailable")
        self.open(path, create=True)
        self.locks.add(path)
        return PageLock(self, path)

    def mutex(self) -> AbstractContextManager[object]:
        return nullcontext()

    def names(self, path: Path, inode: Inode) -> bool:
        """True when this path names this file."""
        return self.exists(path) and self._inode(path) is inode

    def _entries(self, path: Path) -> _Entries:
        if path.parent not in self._directories:
            raise StorageError(path, "cannot open: No such file or directory")
        return self._directories[path.parent]

    def _inode(self, path: Path) -> Inode:
        inode = self._entries(path).seen.get(path.name)
        if inode is None:
            raise StorageError(path, "cannot open: No such file or directory")
        return inode
