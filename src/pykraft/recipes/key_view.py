"""The items of a key-value store as they were at one moment, read piece by piece while the store changes on.

A copy of all items takes one look at each object, and with a GiB of them nearly every look misses the processor's
caches: the loop stood still for tens of milliseconds, and the garbage collector looked at each copy twice more. A view
copies the list of the keys, and each change of the store tells it the item that was there before.

Source: ours (ADR 103); copy on write.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from pykraft.recipes.key_value_commands import Item

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
