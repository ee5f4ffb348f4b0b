"""Keys in order with their values, and the changes that led to them: what the key-value store keeps, without leases.

Invariant: the changes from ``oldest_revision`` on are complete, and all changes of one revision are kept or dropped
together. What is dropped depends on the changes alone, so it is the same on every replica.

Source: ours (ADR 087).
"""

from __future__ import annotations

import operator
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable
from typing import Any, Final

from pykraft.errors import CompactedError
from pykraft.recipes.key_value_commands import Condition, Item, KeyChange

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


class KeySpace:
    """One store's keys; it judges nothing."""

    def __init__(self) -> None:
        self.revision = 0
        """Of the last change."""
        self.oldest_revision = 1
        """The changes from this revision on are kept."""
        self.items: dict[str, Item] = {}
        self.keys: list[str] = []
        """The keys of ``items`` in their order."""
        self.size_bytes = 0
        """Of all keys and values."""
        self.kept: list[KeyChange] = []
        self._kept_size_bytes = 0

    def keys_in(self, key: str, end: str | None) -> list[str]:
        """The keys of a range, in their order."""
        if end is None:
            return [key] if key in self.items else []
        begin = bisect_left(self.keys, key)
        return self.keys[begin : bisect_left(self.keys, end) if end else len(self.keys)]

    def holds(self, condition: Condition) -> bool:
        """Whether a condition of a transaction holds."""
        item = self.items.get(condition.key)
        absent = None if condition.field == "value" else 0
        actual = absent if item is None else getattr(item, condition.field)
        if condition.operator in {"<", ">"} and (actual is None or condition.operand is None):
            return False
        return _COMPARED[condition.operator](actual, condition.operand)

    def put(self, item: Item) -> None:
        """Set an item, at the revision that it names as ``modified``."""
        self.load(item)
        self._keep(KeyChange(item.modified, item.key, item))

    def delete(self, key: str, revision: int) -> None:
        """Delete a key that exists."""
        self.size_bytes -= item_size_bytes(self.items.pop(key))
        del self.keys[bisect_left(self.keys, key)]
        self._keep(KeyChange(revision, key, None))

    def load(self, item: Item) -> None:
        """Set an item without a change."""
        former = self.items.get(item.key)
        if former is None:
            insort(self.keys, item.key)
        else:
            self.size_bytes -= item_size_bytes(former)
        self.items[item.key] = item
        self.size_bytes += item_size_bytes(item)

    def load_changes(self, changes: Iterable[KeyChange]) -> None:
        """Keep these changes, which a snapshot has."""
        for change in changes:
            self._add(change)

    def changes(self, revision: int, key: str, end: str | None) -> tuple[list[KeyChange], int]:
        """Some changes of this range from a revision on, and the revision from which to go on.

        Errors: CompactedError when changes from this revision on are no longer kept.
        """
        if revision < self.oldest_revision:
            raise CompactedError(revision, self.oldest_revision)
        begin = bisect_left(self.kept, revision, key=_revision_of)
        stop = self._whole(begin + SCANNED_MAX)
        found = [one for one in self.kept[begin:stop] if is_in(one.key, key, end)]
        return found, self.revision + 1 if stop == len(self.kept) else self.kept[stop].revision

    def compact(self, revision: int) -> None:
        """Drop the changes before this revision."""
        if revision > self.oldest_revision:
            self._drop(bisect_left(self.kept, revision, key=_revision_of))
            self.oldest_revision = revision

    def _keep(self, change: KeyChange) -> None:
        is_full = len(self.kept) > CHANGES_MAX or self._kept_size_bytes > CHANGES_SIZE_BYTES_MAX
        # Not within a revision: its changes are dropped together.
        if is_full and self.revision < change.revision:
            quarter = self._whole(len(self.kept) // 4 + 1)
            self.oldest_revision = self.kept[quarter - 1].revision + 1
            self._drop(quarter)
        self.revision = change.revision
        self._add(change)

    def _add(self, change: KeyChange) -> None:
        self.kept.append(change)
        self._kept_size_bytes += _change_size_bytes(change)

    def _drop(self, count: int) -> None:
        self._kept_size_bytes -= sum(map(_change_size_bytes, self.kept[:count]))
        del self.kept[:count]

    def _whole(self, stop: int) -> int:
        """This position among the changes, or a later one, at which a revision ends."""
        while 0 < stop < len(self.kept) and self.kept[stop].revision == self.kept[stop - 1].revision:
            stop += 1
        return min(stop, len(self.kept))


def is_in(name: str, key: str, end: str | None) -> bool:
    """Whether a key is in a range."""
    return name == key if end is None else key <= name and (not end or name < end)


def item_size_bytes(item: Item) -> int:
    """The size of a key and its value in UTF-8."""
    return len(item.key.encode()) + len(item.value.encode())


def _change_size_bytes(change: KeyChange) -> int:
    return len(change.key) if change.item is None else item_size_bytes(change.item)


def _revision_of(change: KeyChange) -> int:
    return change.revision
