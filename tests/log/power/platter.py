"""What a disk may hold after a power loss, given the system calls before it.

A small model of its own, apart from the two disks of the simulator and of the tests, which stand in for `OsFs`: this
one is fed with what `OsFs` really asked of the kernel. Durable is what was synced: bytes and size of a file with a sync
of that file, names with a sync of their directory. Of the rest each page (all, its first sectors, or nothing), each
size and each change of a name may be there or not, independent of the others. `Fate` decides.

Source: POSIX ``fsync``; ALICE (OSDI 2014), whose abstract persistence model with the weakest order this is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TypeAlias

from tests.log.power.system_calls import (
    Call,
    Create,
    MakeDirectory,
    Remove,
    Rename,
    Resize,
    SyncDirectory,
    SyncFile,
    Write,
)

PAGE_SIZE_BYTES = 4_096
SECTOR_SIZE_BYTES = 512

Tree: TypeAlias = dict[Path, bytes | None]
"""Bytes of files, None for directories, by path below the directory."""


@dataclass(frozen=True, slots=True)
class Fate:
    """What survives of that which was not synced. Each is asked once for each name change, size, page."""

    name: str
    keeps_name: Callable[[], bool]
    size_of: Callable[[int, int], int]
    """From the synced and the written size."""
    page_bytes: Callable[[], int]
    """How many of the first bytes of a page are the written ones."""


LOST = Fate("all lost", lambda: False, lambda synced, _: synced, lambda: 0)
KEPT = Fate("all kept", lambda: True, lambda _, written: written, lambda: PAGE_SIZE_BYTES)
NAMES = Fate("names only", lambda: True, lambda synced, _: synced, lambda: 0)
SIZES = Fate("names and sizes", lambda: True, lambda _, written: written, lambda: 0)
BYTES = Fate("bytes only", lambda: False, lambda _, written: written, lambda: PAGE_SIZE_BYTES)


def drawn(seed: int) -> Fate:
    """Each decision by itself."""
    rng = Random(seed)
    return Fate(
        f"drawn from {seed}",
        lambda: rng.random() < 0.5,
        lambda synced, written: rng.choice((synced, written, rng.randint(*sorted((synced, written))))),
        lambda: rng.choice((0, PAGE_SIZE_BYTES, rng.randrange(0, PAGE_SIZE_BYTES, SECTOR_SIZE_BYTES))),
    )


@dataclass(slots=True)
class _File:
    written: bytearray = field(default_factory=bytearray)
    synced: bytes = b""
    dirty_pages: set[int] = field(default_factory=set)

    def write(self, position: int, data: bytes) -> None:
        self.written.extend(bytes(max(0, position - len(self.written))))
        self.written[position : position + len(data)] = data
        self._touch(position, position + len(data))

    def resize(self, size_bytes: int) -> None:
        before = len(self.written)
        del self.written[size_bytes:]
        self.written.extend(bytes(size_bytes - len(self.written)))
        self._touch(*sorted((before, size_bytes)))

    def sync(self) -> None:
        self.synced = bytes(self.written)
        self.dirty_pages.clear()

    def left(self, fate: Fate) -> bytes:
        size_bytes = fate.size_of(len(self.synced), len(self.written))
        content = bytearray(self.synced[:size_bytes].ljust(size_bytes, b"\0"))
        for page in sorted(self.dirty_pages):
            start = page * PAGE_SIZE_BYTES
            end = min(start + fate.page_bytes(), size_bytes, len(self.written))
            if end > start:
                content[start:end] = self.written[start:end]
        return bytes(content)

    def _touch(self, start: int, end: int) -> None:
        self.dirty_pages.update(range(start // PAGE_SIZE_BYTES, end // PAGE_SIZE_BYTES + 1))


_Directory: TypeAlias = "dict[str, _File | _Names]"
_Change: TypeAlias = "tuple[tuple[str, _File | _Names | None], ...]"


@dataclass(slots=True)
class _Names:
    """One directory."""

    shown: _Directory = field(default_factory=dict)
    synced: _Directory = field(default_factory=dict)
    changes: list[_Change] = field(default_factory=list)

    def change(self, *change: tuple[str, _File | _Names | None]) -> None:
        """One atomic change, not durable yet: a rename is two names."""
        _apply(self.shown, change)
        self.changes.append(change)

    def sync(self) -> None:
        self.synced = dict(self.shown)
        self.changes.clear()

    def left(self, fate: Fate) -> _Directory:
        names = dict(self.synced)
        for change in self.changes:
            if fate.keeps_name():
                _apply(names, change)
        return names


def _apply(names: _Directory, change: _Change) -> None:
    for name, found in change:
        if found is None:
            names.pop(name, None)
        else:
            names[name] = found


class Platter:
    """The disk below one directory, which is durable itself."""

    def __init__(self, top: Path) -> None:
        self._directories: dict[Path, _Names] = {top: _Names()}
        self._top = top
        self._files: dict[int, _File] = {}

    def apply(self, call: Call) -> None:
        """Carry out one more call."""
        match call:
            case MakeDirectory(path):
                self._directories[path] = made = _Names()
                self._directories[path.parent].change((path.name, made))
            case Create(path, file):
                self._files[file] = _File()
                self._directories[path.parent].change((path.name, self._files[file]))
            case Write(file, position, data):
                self._files[file].write(position, data)
            case Resize(file, size_bytes):
                self._files[file].resize(size_bytes)
            case SyncFile(file):
                self._files[file].sync()
            case SyncDirectory(path):
                self._directories[path].sync()
            case Rename(old, new):
                assert old.parent == new.parent, "a rename across directories is not modelled"
                names = self._directories[old.parent]
                names.change((old.name, None), (new.name, names.shown[old.name]))
            case Remove(path):
                self._directories[path.parent].change((path.name, None))

    def left(self, fate: Fate) -> Tree:
        """What is there after a power loss now; the disk itself stays as it is."""
        return _walk(Path(), self._directories[self._top], fate)


def _walk(path: Path, names: _Names, fate: Fate) -> Tree:
    tree: Tree = {}
    for name, found in sorted(names.left(fate).items()):
        if isinstance(found, _File):
            tree[path / name] = found.left(fate)
        else:
            tree[path / name] = None
            tree.update(_walk(path / name, found, fate))
    return tree
