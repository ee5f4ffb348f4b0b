"""Keys in order with their values, and the changes that led to them: what the key-value store keeps, without leases.

Invariant: the changes from ``oldest_revision`` on are complete, and all changes of one revision are kept or dropped
together. What is dropped depends on the changes alone, so it is the same on every replica. All are plain tuples: a full
garbage collection over a million objects of a class stops the loop for a third of a second.

A snapshot reads a view of the items, which change on meanwhile: it copies the list of the keys, and gets each item
before that is changed. A copy of a GiB of items stopped the loop for tens of milliseconds.

Source: ours (ADR 084, ADR 087, ADR 103); copy on write.
"""

from __future__ import annotations

import operator
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final, TypeAlias
from weakref import ref

from pykraft.errors import CompactedError
from pykraft.recipes.key_value_commands import Condition, Item, KeyChange

PackedItem: TypeAlias = tuple[str, int, int, int, int]
"""The fields of an `Item` after its key."""


class KeyView:
    """The items of these keys at the moment of this call, in the order of the keys."""

    def __init__(self, keys: Sequence[str], items: Mapping[str, PackedItem]) -> None:
        """``items`` has all ``keys``, and changes on; before each change, `keep` gets the item that was there."""
        self._keys = [*keys]
        self._items = items
        self._former: dict[str, PackedItem] = {}

    def keep(self, key: str, item: PackedItem) -> None:
        """This item is about to be replaced or deleted; only the first one of a key was there at that moment."""
        self._former.setdefault(key, item)

    def __iter__(self) -> Iterator[Item]:
        for key in self._keys:
            packed = self._former.get(key)
            yield Item(key, *(self._items[key] if packed is None else packed))


CHANGES_MAX: Final = 100_000
CHANGES_SIZE_BYTES_MAX: Final = 1 << 26
"""Changes that are kept; beyond either, the oldest quarter of them is dropped. Part of the format."""
SCANNED_MAX: Final = 1_000
"""Changes that one look at them reads, so that the loop is not blocked."""
_COMPARED: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}


PackedChange: TypeAlias = tuple[int, str, PackedItem | None]
"""A `KeyChange`."""


class KeySpace:
    """One store's keys; it judges nothing."""

    def __init__(self) -> None:
        self.revision: int = 0
        """Of the last change."""
        self.oldest_revision: int = 1
        """The changes from this revision on are kept."""
        self.keys: list[str] = []
        """All keys in their order."""
        self.size_bytes: int = 0
        """Of all keys and values."""
        self._items: dict[str, PackedItem] = {}
        self._views: list[ref[KeyView]] = []
        """Those that somebody reads, one while a snapshot is written."""
        self._kept: list[PackedChange] = []
        self._kept_size_bytes = 0

    def get(self, key: str) -> Item | None:
        """The item of this key."""
        packed = self._items.get(key)
        return None if packed is None else Item(key, *packed)

    def range(self, key: str, end: str | None, limit: int | None) -> list[Item]:
        """The items of a range, in the order of their keys."""
        return [Item(found, *self._items[found]) for found in self.keys_in(key, end)[:limit]]

    @property
    def kept(self) -> list[KeyChange]:
        """All changes that are kept."""
        return [*map(_unpacked, self._kept)]

    def records(self) -> Iterator[Item | KeyChange]:
        """All items in the order of their keys, then all changes, as they are at the moment of this call."""
        view = KeyView(self.keys, self._items)
        self._views.append(ref(view, self._views.remove))
        return chain(view, map(_unpacked, self._kept.copy()))

    def keys_in(self, key: str, end: str | None) -> list[str]:
        """The keys of a range, in their order."""
        if end is None:
            return [key] if key in self._items else []
        begin = bisect_left(self.keys, key)
        return self.keys[begin : bisect_left(self.keys, end) if end else len(self.keys)]

    def holds(self, condition: Condition) -> bool:
        """Whether a condition of a transaction holds."""
        item = self.get(condition.key)
        absent = None if condition.field == "value" else 0
        actual = absent if item is None else getattr(item, condition.field)
        if condition.operator in {"<", ">"} and (actual is None or condition.operand is None):
            return False
        return _COMPARED[condition.operator](actual, condition.operand)

    def put(self, item: Item) -> None:
        """Set an item, at the revision that it names as ``modified``."""
        self._keep((item.modified, item.key, self.load(item)))

    def delete(self, key: str, revision: int) -> None:
        """Delete a key that exists."""
        former = self._items.pop(key)
        self._keep_for_views(key, former)
        self.size_bytes -= _size_bytes(key, former)
        del self.keys[bisect_left(self.keys, key)]
        self._keep((revision, key, None))

    def load(self, item: Item) -> PackedItem:
        """Set an item without a change."""
        key = item.key
        former = self._items.get(key)
        if former is None:
            insort(self.keys, key)
        else:
            self._keep_for_views(key, former)
            self.size_bytes -= _size_bytes(key, former)
        packed = self._items[key] = _packed(item)
        self.size_bytes += _size_bytes(key, packed)
        return packed

    def load_changes(self, changes: Iterable[KeyChange]) -> None:
        """Keep these changes, which a snapshot has."""
        for change in changes:
            packed = None if change.item is None else _packed(change.item)
            self._add((change.revision, change.key, packed))

    def changes(self, revision: int, key: str, end: str | None) -> tuple[list[KeyChange], int]:
        """Some changes of this range from a revision on, and the revision from which to go on.

        Errors: CompactedError when changes from this revision on are no longer kept.
        """
        if revision < self.oldest_revision:
            raise CompactedError(revision, self.oldest_revision)
        begin = bisect_left(self._kept, revision, key=_revision_of)
        stop = self._whole(begin + SCANNED_MAX)
        found = [_unpacked(one) for one in self._kept[begin:stop] if is_in(one[1], key, end)]
        return found, self.revision + 1 if stop == len(self._kept) else _revision_of(self._kept[stop])

    def compact(self, revision: int) -> None:
        """Drop the changes before this revision."""
        if revision > self.oldest_revision:
            self._drop(bisect_left(self._kept, revision, key=_revision_of))
            self.oldest_revision = revision

    def _keep_for_views(self, key: str, former: PackedItem) -> None:
        for found in self._views:
            view = found()
            if view is not None:
                view.keep(key, former)

    def _keep(self, change: PackedChange) -> None:
        revision = _revision_of(change)
        is_full = len(self._kept) > CHANGES_MAX or self._kept_size_bytes > CHANGES_SIZE_BYTES_MAX
        # Not within a revision: its changes are dropped together.
        if is_full and self.revision < revision:
            quarter = self._whole(len(self._kept) // 4 + 1)
            self.oldest_revision = _revision_of(self._kept[quarter - 1]) + 1
            self._drop(quarter)
        self.revision = revision
        self._add(change)

    def _add(self, change: PackedChange) -> None:
        self._kept.append(change)
        self._kept_size_bytes += _change_size_bytes(change)

    def _drop(self, count: int) -> None:
        self._kept_size_bytes -= sum(map(_change_size_bytes, self._kept[:count]))
        del self._kept[:count]

    def _whole(self, stop: int) -> int:
        """This position among the changes, or a later one, at which a revision ends."""
        kept = self._kept
        while 0 < stop < len(kept) and _revision_of(kept[stop]) == _revision_of(kept[stop - 1]):
            stop += 1
        return min(stop, len(kept))


def is_in(name: str, key: str, end: str | None) -> bool:
    """Whether a key is in a range."""
    return name == key if end is None else key <= name and (not end or name < end)


def item_size_bytes(item: Item) -> int:
    """The size of a key and its value in UTF-8."""
    return _size_bytes(item.key, _packed(item))


def _size_bytes(key: str, packed: PackedItem) -> int:
    return len(key.encode()) + len(packed[0].encode())


def _change_size_bytes(change: PackedChange) -> int:
    _, key, packed = change
    return len(key) if packed is None else _size_bytes(key, packed)


def _revision_of(change: PackedChange) -> int:
    return change[0]


def _packed(item: Item) -> PackedItem:
    return item.value, item.created, item.modified, item.version, item.lease


def _unpacked(change: PackedChange) -> KeyChange:
    revision, key, packed = change
    return KeyChange(revision, key, None if packed is None else Item(key, *packed))
