"""One file and one directory of a virtual disk: what the kernel shows, what the platter holds, and what was synced.

A platter may lie: some bytes differ from what was written and synced (`Inode.rot`), until they are written again.
``synced`` holds the bytes on the platter, with their rot; `Inode.promised` returns those that the program synced. An
oracle holds a program to the promised bytes only.

What a power loss leaves of everything that was not synced is the decision of a fate, for each name, size and page.
`DrawnFate` leaves it to chance; the five `Extreme` ones are for tests that look at each operation of a program and
cannot afford many draws. The disk promises very little, so a fate may choose from much (ALICE, its weakest order):
writes reach the platter in any order and at any time before the loss, so a page may hold any of the contents that it
had since it was last clean, and a size may be any in between. No size of an atomic write is assumed: a page may be a
mix of two of its contents, cut at any byte.

Source: ALICE (OSDI 2014); Bairavasundaram et al., An Analysis of Data Corruption in the Storage Stack (FAST 2008);
Rebello et al., Can Applications Recover from fsync Failures? (USENIX ATC 2020).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final, Protocol, TypeVar

from pykraft.sim.scenario.scenario import Storage


class Fate(Protocol):
    """Answers for one power loss. Each sequence begins with what is on the platter and ends with the present."""

    def keeps_name(self) -> bool:
        """Whether one change of a directory that was not synced survives: a new, renamed or removed entry."""

    def size_bytes(self, sizes: Sequence[int]) -> int:
        """The surviving size of a file."""

    def page(self, contents: Sequence[bytes]) -> bytes:
        """The surviving content of a page; all contents are whole pages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extreme:
    """All or nothing of each kind. See `Fate`."""

    name: str
    keeps_names: bool
    keeps_sizes: bool
    keeps_pages: bool

    def keeps_name(self) -> bool:
        return self.keeps_names

    def size_bytes(self, sizes: Sequence[int]) -> int:
        return sizes[-1 if self.keeps_sizes else 0]

    def page(self, contents: Sequence[bytes]) -> bytes:
        return contents[-1 if self.keeps_pages else 0]


EXTREMES: Final = (
    Extreme(name="all lost", keeps_names=False, keeps_sizes=False, keeps_pages=False),
    Extreme(name="all kept", keeps_names=True, keeps_sizes=True, keeps_pages=True),
    Extreme(name="names only", keeps_names=True, keeps_sizes=False, keeps_pages=False),
    Extreme(name="names and sizes", keeps_names=True, keeps_sizes=True, keeps_pages=False),
    Extreme(name="bytes only", keeps_names=False, keeps_sizes=True, keeps_pages=True),
)
ALL_KEPT: Final = EXTREMES[1]


class DrawnFate:
    """Draws each decision independently of the others. See `Fate`."""

    def __init__(self, rng: Random, storage: Storage | None = None) -> None:
        self._rng = rng
        self._storage = storage or Storage()

    def keeps_name(self) -> bool:
        return self._rng.random() < 0.5

    def size_bytes(self, sizes: Sequence[int]) -> int:
        """See `Fate`: the old one, the new one, one in between in time, or one in between in size."""
        rng = self._rng
        return rng.choice((sizes[0], sizes[-1], rng.choice(sizes), rng.randint(min(sizes), max(sizes))))

    def page(self, contents: Sequence[bytes]) -> bytes:
        """See `Fate`: torn, lost, or one of the contents that it had since."""
        chance = self._rng.random()
        if chance < self._storage.page_torn_probability:
            return self._torn(*self._rng.sample(contents, 2))
        if chance < self._storage.page_torn_probability + self._storage.page_lost_probability:
            return contents[0]
        return self._rng.choice(contents[1:])

    def _torn(self, one: bytes, other: bytes) -> bytes:
        """The first part of one and the rest of the other, cut where they differ; equal ones cannot be torn."""
        differing = [at for at, (left, right) in enumerate(zip(one, other, strict=True)) if left != right]
        if not differing:
            return one
        cut = self._rng.randint(differing[0] + 1, max(differing[-1], differing[0] + 1))
        return one[:cut] + other[cut:]


T = TypeVar("T")

PAGE_SIZE_BYTES = 4_096
PAST_MAX = 16
"""How many past contents of a page, and past sizes of a file, are remembered between two syncs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remains:
    """What a power loss leaves of a file."""

    content: bytearray
    written_pages: set[int]
    """Pages that are on the platter otherwise than before."""
    torn_pages_count: int


@dataclass(slots=True, eq=False)
class Inode:
    """One file."""

    cached: bytearray = field(default_factory=bytearray)
    synced: bytearray = field(default_factory=bytearray)
    dirty_pages: dict[int, list[bytes]] = field(default_factory=dict)
    """By number: the contents that the page had since it became dirty, oldest first, without the present one."""
    version: int = 0
    _sizes: list[int] = field(default_factory=list)
    """The sizes since the last sync, oldest first, without the present one."""
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
        if not data:
            return
        before, end = len(self.cached), position + len(data)
        self._touch(min(position, before), end)
        if end > before:
            _remember(self._sizes, before)
            self.cached.extend(bytes(end - before))
        self.cached[position:end] = data

    def resize(self, size_bytes: int) -> None:
        """Truncate, or extend with zeros; in the cache only."""
        before = len(self.cached)
        if size_bytes == before:
            return
        _remember(self._sizes, before)
        if size_bytes < before:
            self._touch(size_bytes, before)
            del self.cached[size_bytes:]
        else:
            # A hole takes no page: only the last page, and what the platter still holds beyond it, must become zeros.
            self._touch(before, min(size_bytes, max(before + 1, len(self.synced))))
            self.cached.extend(bytes(size_bytes - before))

    def _touch(self, start: int, end: int) -> None:
        for page in range(start // PAGE_SIZE_BYTES, (end - 1) // PAGE_SIZE_BYTES + 1):
            past = self.dirty_pages.get(page)
            if past is None:
                self.dirty_pages[page] = []
            else:
                _remember(past, _page(self.cached, page))

    def sync(self) -> None:
        """Move everything in the cache to the platter."""
        if len(self.synced) > len(self.cached):
            del self.synced[len(self.cached) :]
        elif len(self.synced) < len(self.cached):
            self.synced.extend(bytes(len(self.cached) - len(self.synced)))
        for page in self.dirty_pages:
            self._write_back(page)
        self._all_clean()

    def fail_sync(self, rng: Random) -> None:
        """Fail a sync: some pages reach the platter; the others do not, and the kernel marks them clean all the same.

        The cache still shows all of them, and a later sync has nothing to write.
        """
        for page in sorted(self.dirty_pages):
            if rng.random() < 0.5 and page * PAGE_SIZE_BYTES < len(self.synced):
                self._write_back(page, size_bytes_max=len(self.synced))
        self._all_clean()

    def left(self, fate: Fate) -> Remains:
        """What a power loss now would leave; the file stays as it is."""
        size_bytes = fate.size_bytes((len(self.synced), *self._sizes, len(self.cached)))
        content = bytearray(self.synced[:size_bytes].ljust(size_bytes, b"\0"))
        written_pages: set[int] = set()
        torn_pages_count = 0
        for page in sorted(self.dirty_pages):
            start, end = page * PAGE_SIZE_BYTES, min((page + 1) * PAGE_SIZE_BYTES, size_bytes)
            if start >= end:
                break
            contents = [_page(self.synced, page), *self.dirty_pages[page], _page(self.cached, page)]
            survivor = fate.page(contents)
            content[start:end] = survivor[: end - start]
            torn_pages_count += survivor not in contents
            if survivor != contents[0]:
                written_pages.add(page)
        return Remains(content=content, written_pages=written_pages, torn_pages_count=torn_pages_count)

    def lose(self, fate: Fate) -> int:
        """Lose power; returns how many pages are torn."""
        remains = self.left(fate)
        self.synced = remains.content
        self.cached = bytearray(remains.content)
        self.lost_pages -= remains.written_pages
        self._all_clean()
        return remains.torn_pages_count

    def rot(self, position: int, data: bytes) -> None:
        """Put these bytes on the platter instead of the synced ones; the cache keeps showing what it did."""
        for at, byte in enumerate(data[: max(0, len(self.synced) - position)], start=position):
            promised = self._rot[at][0] if at in self._rot else self.synced[at]
            self.synced[at] = byte
            self._rot[at] = (promised, byte)
        self._changed()

    def mend(self) -> None:
        """Put what was synced on the platter after all."""
        for at, (promised, _) in self._rot.items():
            self.synced[at] = promised
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
        return not any(page in pages for page in self.lost_pages - self.dirty_pages.keys())

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

    def _all_clean(self) -> None:
        self.dirty_pages.clear()
        self._sizes.clear()
        self._changed()

    def _changed(self) -> None:
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


def _page(content: bytearray, page: int) -> bytes:
    """A whole page: zeros follow the end of the file."""
    return bytes(content[page * PAGE_SIZE_BYTES : (page + 1) * PAGE_SIZE_BYTES]).ljust(PAGE_SIZE_BYTES, b"\0")


def _remember(past: list[T], present: T) -> None:
    if len(past) == PAST_MAX:
        del past[1::2]
    past.append(present)


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

    def left(self, fate: Fate) -> dict[str, Inode]:
        """The names that a power loss now would leave: any of the changes since the last sync, whatever their order."""
        names = dict(self.synced)
        for change in self.changes:
            if fate.keeps_name():
                _apply(names, change)
        return names

    def lose(self, fate: Fate) -> None:
        """Lose power."""
        self.synced = self.left(fate)
        self.cached = dict(self.synced)
        self.changes.clear()


def _apply(names: dict[str, Inode], change: Change) -> None:
    for name, inode in change:
        if inode is None:
            names.pop(name, None)
        else:
            names[name] = inode
