"""One file and one directory of a virtual disk: what the kernel shows, what the platter holds, and what was synced.

A power loss may lose unsynced pages, each independently. A platter may also lie: some bytes differ from what was
written and synced (`Inode.rot`). ``synced`` holds the bytes on the platter, with their rot; `Inode.promised` returns
those that the program synced. An oracle holds a program to the promised bytes only. Rot lasts until those bytes are
written again.

Source: ALICE (OSDI 2014); Bairavasundaram et al., An Analysis of Data Corruption in the Storage Stack (FAST 2008);
Rebello et al., Can Applications Recover from fsync Failures? (USENIX ATC 2020).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from pykraft.sim.scenario.scenario import Storage

PAGE_SIZE_BYTES = 4_096
SECTOR_SIZE_BYTES = 512


@dataclass(slots=True, eq=False)
class Inode:
    """One file."""

    cached: bytearray = field(default_factory=bytearray)
    synced: bytearray = field(default_factory=bytearray)
    dirty_pages: set[int] = field(default_factory=set)
    version: int = 0
    _rot: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By position: the byte that was synced, and the byte that is on the platter instead."""
    lost_pages: set[int] = field(default_factory=set)
    """Pages that the disk cannot read, until they are written again or cut off."""

    @property
    def is_rotten(self) -> bool:
        """True when the platter does not hold what was synced."""
        return bool(self._rot or self.lost_pages)

    def standing(self) -> bytes:
        """The bytes on the platter; zeros where it cannot be read."""
        content = bytearray(self.synced)
        for page in self.lost_pages:
            start, end = page * PAGE_SIZE_BYTES, min((page + 1) * PAGE_SIZE_BYTES, len(content))
            content[start:end] = bytes(max(0, end - start))
        return bytes(content)

    def promised(self) -> bytes:
        """The bytes that were synced, as if the disk had not lied."""
        if not self._rot:
            return bytes(self.synced)
        content = bytearray(self.synced)
        for position, (byte, _) in self._rot.items():
            content[position] = byte
        return bytes(content)

    def write(self, data: bytes, position: int) -> None:
        """Write into the cache only."""
        if position > len(self.cached):
            self.cached.extend(bytes(position - len(self.cached)))
        self.cached[position : position + len(data)] = data
        self.dirty_pages.update(range(position // PAGE_SIZE_BYTES, (position + len(data)) // PAGE_SIZE_BYTES + 1))

    def resize(self, size_bytes: int) -> None:
        """Truncate, or extend with zeros; in the cache only."""
        before = len(self.cached)
        if size_bytes < before:
            del self.cached[size_bytes:]
        else:
            self.cached.extend(bytes(size_bytes - before))
        low, high = sorted((before, size_bytes))
        self.dirty_pages.update(range(low // PAGE_SIZE_BYTES, high // PAGE_SIZE_BYTES + 1))

    def sync(self) -> None:
        """Move everything in the cache to the platter."""
        if len(self.synced) > len(self.cached):
            del self.synced[len(self.cached) :]
        elif len(self.synced) < len(self.cached):
            self.synced.extend(bytes(len(self.cached) - len(self.synced)))
        for page in self.dirty_pages:
            self._write_back(page)
        self.dirty_pages.clear()
        self._changed()

    def fail_sync(self, rng: Random) -> None:
        """Fail a sync: some pages reach the platter; the others do not, and the kernel marks them clean all the same.

        The cache still shows all of them, and a later sync has nothing to write.
        """
        for page in sorted(self.dirty_pages):
            if rng.random() < 0.5 and page * PAGE_SIZE_BYTES < len(self.synced):
                self._write_back(page, size_bytes_max=len(self.synced))
        self.dirty_pages.clear()
        self._changed()

    def lose(self, rng: Random, storage: Storage) -> int:
        """Lose power: decide for each unsynced page whether it survives; returns how many pages are torn."""
        low, high = sorted((len(self.synced), len(self.cached)))
        size_bytes = rng.choice((low, high, rng.randint(low, high)))
        kept = bytearray(self.synced[:size_bytes].ljust(size_bytes, b"\0"))
        torn = 0
        for page in sorted(self.dirty_pages):
            start = page * PAGE_SIZE_BYTES
            surviving_bytes = _surviving_size_bytes(rng, storage)
            end = min(start + surviving_bytes, size_bytes, len(self.cached))
            if end > start:
                kept[start:end] = self.cached[start:end]
                self.lost_pages.discard(page)
                torn += surviving_bytes < PAGE_SIZE_BYTES and end < len(self.cached)
        self.synced = kept
        self.cached = bytearray(kept)
        self.dirty_pages.clear()
        self._changed()
        return torn

    def rot(self, position: int, data: bytes) -> None:
        """Put these bytes on the platter instead of the synced ones; the cache keeps showing what it did."""
        for at, byte in enumerate(data[: max(0, len(self.synced) - position)], start=position):
            promised = self._rot[at][0] if at in self._rot else self.synced[at]
            self.synced[at] = byte
            self._rot[at] = (promised, byte)
        self._changed()

    def is_rotten_at(self, position: int) -> bool:
        """True when this byte on the platter is not the one that was written."""
        return position in self._rot

    def lose_page(self, page: int) -> None:
        """Make this page unreadable, and drop it from the cache."""
        assert page not in self.dirty_pages
        self.lost_pages.add(page)
        self._changed()

    def is_readable(self, size_bytes: int, position: int) -> bool:
        """False when some of these bytes are on a lost page and have not been written again since."""
        end = min(position + size_bytes, len(self.cached))
        pages = range(position // PAGE_SIZE_BYTES, -(-end // PAGE_SIZE_BYTES))
        return not any(page in pages for page in self.lost_pages - self.dirty_pages)

    def evict(self) -> None:
        """Drop the clean pages from the cache: the next read takes them from the platter."""
        for page in range(len(self.synced) // PAGE_SIZE_BYTES + 1):
            start = page * PAGE_SIZE_BYTES
            if page not in self.dirty_pages:
                end = min(start + PAGE_SIZE_BYTES, len(self.synced), len(self.cached))
                self.cached[start:end] = self.synced[start:end]

    def _write_back(self, page: int, size_bytes_max: int | None = None) -> None:
        start = page * PAGE_SIZE_BYTES
        end = start + PAGE_SIZE_BYTES if size_bytes_max is None else min(start + PAGE_SIZE_BYTES, size_bytes_max)
        data = self.cached[start:end]
        self.synced[start : start + len(data)] = data
        self.lost_pages.discard(page)

    def _changed(self) -> None:
        """Forget rot that was written over or cut off."""
        self.version += 1
        if self.lost_pages:
            self.lost_pages = {page for page in self.lost_pages if page * PAGE_SIZE_BYTES < len(self.synced)}
        if self._rot:
            size_bytes = len(self.synced)
            self._rot = {
                at: (promised, found)
                for at, (promised, found) in self._rot.items()
                if at < size_bytes and self.synced[at] == found != promised
            }


def _surviving_size_bytes(rng: Random, storage: Storage) -> int:
    """How much of an unsynced page reached the platter: all, nothing, or its first sectors."""
    fate = rng.random()
    if fate < storage.page_torn_probability:
        return rng.randrange(1, PAGE_SIZE_BYTES // SECTOR_SIZE_BYTES) * SECTOR_SIZE_BYTES
    return 0 if fate < storage.page_torn_probability + storage.page_lost_probability else PAGE_SIZE_BYTES


Change = tuple[tuple[str, Inode | None], ...]
"""Names that change together: one for a creation or a removal, two for a rename."""


@dataclass(slots=True, kw_only=True)
class Directory:
    """The names in a directory: in the cache, on the platter, and the changes in between."""

    cached: dict[str, Inode] = field(default_factory=dict)
    synced: dict[str, Inode] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)

    def change(self, *names: tuple[str, Inode | None]) -> None:
        """Make one atomic change, in the cache only."""
        _apply(self.cached, names)
        self.changes.append(names)

    def sync(self) -> None:
        """Move all names to the platter."""
        self.synced = dict(self.cached)
        self.changes.clear()

    def lose(self, rng: Random) -> None:
        """Lose power: of the changes since the last sync, only the first few (a random number) survive."""
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
