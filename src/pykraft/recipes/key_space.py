"""The keys of a store, its changes, and who watches them: each call takes as long as what it finds or changes.

Items and changes are plain tuples: a full garbage collection over a million objects of a class stops the loop for a
third of a second. A snapshot reads a view of the items, which change on meanwhile: it keeps the pieces of the sorted
keys, which are copied before they change, and gets each item before that is changed.

Each kept change has what it replaced, so the store can be read as it was at any revision from ``oldest_revision`` on:
a key that changed later had what the first of its later changes replaced.

Invariants: the changes from ``oldest_revision`` on are complete, and all changes of one revision are kept or dropped
together. A watch that waits is woken by the first change of its range, and by no other one.

Source: ours (ADR 084, ADR 087, ADR 103, ADR 181, ADR 184).
"""

import operator
from array import array
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import chain, islice, repeat, takewhile
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar
from weakref import ref

from pykraft.errors import CompactedError
from pykraft.recipes.key_value_commands import Condition, Item, KeyChange, KeyFormer, prefix, value_bytes

PackedItem: TypeAlias = tuple[str, int, int, int, int, int]
"""The fields of an `Item` after its key, and the size of the value in bytes."""
UNKNOWN: Final[PackedItem] = ("", 0, 0, 0, 0, 0)
"""Was replaced by a change in a snapshot of a version that did not keep this."""


class Ordered(Protocol):
    """What can be compared."""

    def __lt__(self, other: Any, /) -> bool: ...  # noqa: ANN401 - as its kind demands


K = TypeVar("K", bound=Ordered)
PIECE_MAX: Final = 1_000
"""Values in a piece of `SortedValues`; one of twice as many is split."""


class SortedValues(Generic[K]):
    """Different values in their order, in pieces: to add or remove one moves at most two thousand others."""

    def __init__(self) -> None:
        self._pieces: list[list[K]] = []
        self._lasts: list[K] = []
        """The last value of each piece."""
        self._frozen: set[int] = set()
        """The pieces, by their ids, that `freeze` gave away."""
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[K]:
        return chain.from_iterable(self._pieces)

    def freeze(self) -> list[list[K]]:
        """All pieces as they are now; nobody changes them."""
        self._frozen.update(map(id, self._pieces))
        return [*self._pieces]

    def add(self, value: K) -> None:
        """Add a value that is not there."""
        self._count += 1
        if not self._pieces:
            self._pieces.append([value])
            self._lasts.append(value)
            return
        at = min(bisect_left(self._lasts, value), len(self._pieces) - 1)
        piece = self._own(at)
        insort(piece, value)
        if len(piece) > 2 * PIECE_MAX:
            self._pieces[at : at + 1] = [piece[:PIECE_MAX], piece[PIECE_MAX:]]
            self._lasts[at : at + 1] = [piece[PIECE_MAX - 1], piece[-1]]
        else:
            self._lasts[at] = piece[-1]

    def remove(self, values: Sequence[K]) -> None:
        """Remove these values, which are there, and in their order."""
        self._count -= len(values)
        begin = 0
        while begin < len(values):
            at = bisect_left(self._lasts, values[begin])
            stop = bisect_right(values, self._lasts[at], begin)
            self._remove(at, values[begin:stop])
            begin = stop

    def between(self, begin: K, end: K | None) -> Iterator[K]:
        """The values from one on, and before another one; do not change any meanwhile."""
        at, first = self._position(begin)
        stop_at, stop = self._position(end)
        while at < stop_at:
            yield from self._pieces[at][first:]
            at, first = at + 1, 0
        if at == stop_at < len(self._pieces):
            yield from self._pieces[at][first:stop]

    def count(self, begin: K, end: K | None) -> int:
        """How many values there are between two."""
        at, first = self._position(begin)
        stop_at, stop = self._position(end)
        if stop_at < at or (stop_at == at and stop <= first):
            return 0
        return sum(map(len, self._pieces[at:stop_at])) - first + stop

    def last(self, begin: K, end: K | None) -> K | None:
        """The last value between two."""
        at, stop = self._position(end)
        if stop == 0:
            at, stop = at - 1, 0
        if at < 0:
            return None
        found = self._pieces[at][stop - 1]
        return None if found < begin else found

    def first(self) -> K | None:
        """The lowest value."""
        return self._pieces[0][0] if self._pieces else None

    def _position(self, value: K | None) -> tuple[int, int]:
        """The piece, and the place in it, of the first value that is not below this one."""
        at = len(self._pieces) if value is None else bisect_left(self._lasts, value)
        return at, 0 if value is None or at == len(self._pieces) else bisect_left(self._pieces[at], value)

    def _own(self, at: int) -> list[K]:
        piece = self._pieces[at]
        if id(piece) in self._frozen:
            self._frozen.discard(id(piece))
            piece = self._pieces[at] = [*piece]
        return piece

    def _remove(self, at: int, values: Sequence[K]) -> None:
        if len(values) == len(self._pieces[at]):
            del self._pieces[at], self._lasts[at]
            return
        piece = self._own(at)
        begin = bisect_left(piece, values[0])
        stop = begin + len(values)
        if piece[stop - 1 : stop] == [values[-1]]:
            del piece[begin:stop]
        else:
            for value in values:
                del piece[bisect_left(piece, value)]
        self._lasts[at] = piece[-1]


class KeyView:
    """The items of these keys at the moment of this call, in the order of the keys."""

    def __init__(self, pieces: Sequence[Sequence[str]], items: Mapping[str, PackedItem]) -> None:
        """``items`` has all keys, and changes on; before each change, `keep` gets the item that was there."""
        self._pieces = pieces
        self._items = items
        self._former: dict[str, PackedItem] = {}

    def keep(self, key: str, item: PackedItem) -> None:
        """This item is about to be replaced or deleted; only the first one of a key was there at that moment."""
        self._former.setdefault(key, item)

    def __iter__(self) -> Iterator[Item]:
        for key in chain.from_iterable(self._pieces):
            packed = self._former.get(key)
            yield _item(key, self._items[key] if packed is None else packed)


CHANGES_MAX: Final = 100_000
CHANGES_SIZE_BYTES_MAX: Final = 1 << 26
"""Changes that are kept, with what they replaced; beyond either, the oldest quarter is dropped. Part of the format."""
SCANNED_MAX: Final = 1_000
"""Changes that one look at them reads, so that the loop is not blocked."""
FREED_MAX: Final = 1_024
"""Dropped changes that leave memory with each later change: all at once would stop the loop."""
_COMPARED: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}


class KeptChanges:
    """Changes in their order, a column for each of their parts: so many are added at once, or leave, in little time."""

    def __init__(self) -> None:
        self.begin = 0
        """The first one that is not dropped."""
        self.revisions = array("q")
        self.keys: list[str] = []
        self.items: list[PackedItem | None] = []
        """What they put."""
        self.formers: list[PackedItem | None] = []
        """What they replaced."""
        self.size_bytes = 0
        """Of those that are not dropped."""
        self._sizes = array("q")
        """Those of each revision count together."""

    def __len__(self) -> int:
        return len(self.keys) - self.begin

    def __iter__(self) -> Iterator[KeyChange]:
        return iter(self.between(self.begin, len(self.keys), "", ""))

    def add(self, revision: int, key: str, packed: PackedItem | None, former: PackedItem | None) -> None:
        """The key changed."""
        size = (len(key) if packed is None else text_size_bytes(key) + packed[5]) + (0 if former is None else former[5])
        self._free()
        self.size_bytes += size
        self._sizes.append(size)
        self.revisions.append(revision)
        self.keys.append(key)
        self.items.append(packed)
        self.formers.append(former)

    def add_deletions(self, revision: int, keys: Sequence[str], formers: Sequence[PackedItem], size: int) -> None:
        """These keys were deleted; ``size`` is that of all of them, which are dropped together."""
        self._free()
        self.size_bytes += size
        self._sizes.extend(chain((size,), repeat(0, len(keys) - 1)))
        self.revisions.extend(repeat(revision, len(keys)))
        self.keys += keys
        self.items += repeat(None, len(keys))
        self.formers += formers

    def find(self, revision: int) -> int:
        """The first one of this revision, or of a later one."""
        return bisect_left(self.revisions, revision, self.begin)

    def whole(self, stop: int) -> int:
        """This end, or that of the revision which it would cut."""
        if not 0 < stop < len(self.keys):
            return min(stop, len(self.keys))
        return bisect_right(self.revisions, self.revisions[stop - 1], stop)

    def drop(self, stop: int) -> None:
        """Forget those before this one. They leave memory with the next changes."""
        self.size_bytes -= sum(self._sizes[self.begin : stop])
        self.begin = stop

    def between(self, begin: int, stop: int, key: str, end: str | None) -> list[KeyChange]:
        """Those of them that are of this range."""
        return [
            KeyChange(self.revisions[at], name, None if (packed := self.items[at]) is None else _item(name, packed))
            for at, name in enumerate(self.keys[begin:stop], begin)
            if is_in(name, key, end)
        ]

    def records(self) -> Iterator[KeyChange | KeyFormer]:
        """All as they are at the moment of this call; before the first one of a key is what it replaced."""
        columns = (self.revisions, self.keys, self.items, self.formers)
        return _with_formers(zip(*(column[self.begin :] for column in columns), strict=True))

    def _free(self) -> None:
        """Let some of what was dropped leave memory."""
        if self.begin:
            freed = min(self.begin, FREED_MAX)
            for column in (self._sizes, self.revisions, self.keys, self.items, self.formers):
                del column[:freed]
            self.begin -= freed


class KeySpace:
    """One store's keys; it judges nothing."""

    def __init__(self) -> None:
        self.revision: int = 0
        """Of the last change."""
        self.oldest_revision: int = 1
        """The changes from this revision on are kept."""
        self.keys: SortedValues[str] = SortedValues()
        """All keys in their order."""
        self.size_bytes: int = 0
        """Of all keys and values."""
        self._items: dict[str, PackedItem] = {}
        self._views: list[ref[KeyView]] = []
        """Those that somebody reads, one while a snapshot is written."""
        self.kept: KeptChanges = KeptChanges()
        self._loaded: dict[str, PackedItem | None] = {}
        """While a snapshot is loaded: what the next change of a key replaces."""

    def get(self, key: str) -> Item | None:
        """The item of this key."""
        packed = self._items.get(key)
        return None if packed is None else _item(key, packed)

    def range(self, key: str, end: str | None, limit: int | None) -> list[Item]:
        """The items of a range, in the order of their keys."""
        keys = [*islice(self.keys_in(key, end), limit)]
        return [*map(_item, keys, map(self._items.__getitem__, keys))]

    def range_at(self, revision: int, key: str, end: str | None, limit: int | None) -> list[Item]:
        """The items of a range as they were at a revision: looks through all changes since.

        Errors: CompactedError when that is no longer known.
        """
        self._require_kept(revision)
        if end is None and key in self._items and self._items[key][2] <= revision:
            return [_item(key, self._items[key])]  # it did not change since
        begin = self.kept.find(revision + 1)
        # Reversed, so that the first change of a key counts.
        later = zip(reversed(self.kept.keys[begin:]), reversed(self.kept.formers[begin:]), strict=True)
        before: dict[str, PackedItem | None]
        if end is None:
            before = {name: former for name, former in later if name == key}
        else:
            before = {name: former for name, former in later if key <= name and (not end or name < end)}
        if any(former is UNKNOWN for former in before.values()):
            raise CompactedError(revision, self.revision)
        gone = sorted(name for name, former in before.items() if former is not None and name not in self._items)
        names = merge(self.keys_in(key, end), gone)
        known = ((name, before.get(name, self._items.get(name))) for name in names)
        return [*islice((_item(name, packed) for name, packed in known if packed is not None), limit)]

    def last(self, key: str, end: str | None) -> Item | None:
        """The last item of a range."""
        found = key if end is None else self.keys.last(key, end or None)
        return None if found is None else self.get(found)

    def count(self, key: str, end: str | None) -> int:
        """How many keys a range has."""
        return int(key in self._items) if end is None else self.keys.count(key, end or None)

    def records(self) -> Iterator[Item | KeyChange | KeyFormer]:
        """All items in the order of their keys, then all changes, as they are at the moment of this call.

        Before the first change of a key is what it replaced.
        """
        view = KeyView(self.keys.freeze(), self._items)
        self._views.append(ref(view, self._views.remove))
        return chain(view, self.kept.records())

    def keys_in(self, key: str, end: str | None) -> Iterator[str]:
        """The keys of a range, in their order; do not change any meanwhile."""
        if end is None:
            return iter([key] if key in self._items else [])
        return self.keys.between(key, end or None)

    def holds(self, condition: Condition) -> bool:
        """Whether a condition of a transaction holds."""
        item = self.get(condition.key)
        absent = None if condition.field == "value" else 0
        actual = absent if item is None else getattr(item, condition.field)
        if condition.operator in {"<", ">"} and (actual is None or condition.operand is None):
            return False
        if isinstance(actual, str) and isinstance(condition.operand, str):
            return _COMPARED[condition.operator](value_bytes(actual), value_bytes(condition.operand))
        return _COMPARED[condition.operator](actual, condition.operand)

    def put(self, item: Item) -> None:
        """Set an item, at the revision that it names as ``modified``."""
        former = self._items.get(item.key)
        packed = self.load(item)
        self._start(item.modified)
        self.kept.add(item.modified, item.key, packed, former)

    def delete(self, keys: Sequence[str], revision: int) -> list[tuple[int, str]]:
        """Delete keys that exist, in their order; returns the leases of those that have one, with the keys."""
        if not keys:
            return []
        former = [*map(self._items.pop, keys)]
        for key, packed in zip(keys, former, strict=True) if self._views else ():
            self._keep_for_views(key, packed)
        text, values_bytes, leases = "".join(keys), sum(map(_SIZE_OF, former)), [*map(_LEASE_OF, former)]
        self.size_bytes -= text_size_bytes(text) + values_bytes
        self.keys.remove(keys)
        self._start(revision)
        self.kept.add_deletions(revision, keys, former, len(text) + values_bytes)
        return [pair for pair in zip(leases, keys, strict=True) if pair[0]] if any(leases) else []

    def load(self, item: Item) -> PackedItem:
        """Set an item without a change."""
        key = item.key
        former = self._items.get(key)
        if former is None:
            self.keys.add(key)
            self.size_bytes += text_size_bytes(key)
        else:
            self._keep_for_views(key, former)
            self.size_bytes -= former[5]
        packed = self._items[key] = _packed(item)
        self.size_bytes += packed[5]
        return packed

    def load_change(self, change: KeyChange) -> None:
        """Keep this change, which a snapshot has."""
        item = change.item
        packed = None if item is None else _packed(item)
        unknown = UNKNOWN if item is None or item.version > 1 else None
        self.kept.add(change.revision, change.key, packed, self._loaded.get(change.key, unknown))
        self._loaded[change.key] = packed

    def load_former(self, item: Item) -> None:
        """The next change of this key that a snapshot has replaced this item."""
        self._loaded[item.key] = _packed(item)

    def loaded(self) -> None:
        """The snapshot is complete."""
        self._loaded = {}

    def changes(self, revision: int, key: str, end: str | None) -> tuple[list[KeyChange], int]:
        """Some changes of this range from a revision on, and the revision from which to go on.

        Errors: CompactedError when changes from this revision on are no longer kept.
        """
        self._require_kept(revision)
        kept, begin = self.kept, self.kept.find(revision)
        stop = kept.whole(begin + SCANNED_MAX)
        following = self.revision + 1 if stop == len(kept.keys) else kept.revisions[stop]
        return kept.between(begin, stop, key, end), following

    def changed_keys(self, revision: int) -> list[str]:
        """The keys that changed at this revision, the last one."""
        return self.kept.keys[self.kept.find(revision) :]

    def compact(self, revision: int) -> None:
        """Drop the changes before this revision."""
        if revision > self.oldest_revision:
            self.kept.drop(self.kept.find(revision))
            self.oldest_revision = revision

    def _require_kept(self, revision: int) -> None:
        if revision < self.oldest_revision:
            raise CompactedError(revision, self.oldest_revision)

    def _keep_for_views(self, key: str, former: PackedItem) -> None:
        for found in self._views:
            view = found()
            if view is not None:
                view.keep(key, former)

    def _start(self, revision: int) -> None:
        """The next change has this revision."""
        kept = self.kept
        # Not within a revision: its changes are dropped together.
        if self.revision < revision and (len(kept) > CHANGES_MAX or kept.size_bytes > CHANGES_SIZE_BYTES_MAX):
            quarter = kept.whole(kept.begin + len(kept) // 4 + 1)
            self.oldest_revision = kept.revisions[quarter - 1] + 1
            kept.drop(quarter)
        self.revision = revision


SEARCH_COST: Final = 16
"""To search many keys for a range takes so much longer than to find the ranges of a key by one of their beginnings."""


class KeyWatch:
    """What one watch waits for, and from which revision on it has not seen the changes."""

    __slots__ = ("_wake", "end", "from_revision", "key")

    def __init__(self, key: str, end: str | None, wake: Callable[[], object]) -> None:
        """``wake`` is called by the first change that it waits for."""
        self.key = key
        self.end = end
        self.from_revision: int | None = 0
        """None while it waits."""
        self._wake = wake

    def wait(self) -> None:
        """It has seen all changes, and waits for the next one of its range."""
        self.from_revision = None

    def changed(self, revision: int) -> None:
        """Its range has changed at this revision, or may have."""
        if self.from_revision is None:
            self.from_revision = revision
            self._wake()


class KeyWatches:
    """All watches of a node, by what they watch: a change costs nothing for those that it does not concern."""

    def __init__(self) -> None:
        self._of_key: dict[str, dict[KeyWatch, None]] = {}
        self._of_start: dict[str, dict[KeyWatch, None]] = {}
        """Watches of ranges, by what all keys of the range begin with."""
        self._lengths: Counter[int] = Counter()
        """How many ranges have a beginning of this length."""
        self._count = 0
        self._ranges = 0

    def __len__(self) -> int:
        return self._count

    def open(self, key: str, end: str | None, wake: Callable[[], object]) -> KeyWatch:
        """A new watch."""
        watch = KeyWatch(key, end, wake)
        self._count += 1
        if end is None:
            self._of_key.setdefault(key, {})[watch] = None
        else:
            start = _start_of(key, end)
            self._of_start.setdefault(start, {})[watch] = None
            self._lengths[len(start)] += 1
            self._ranges += 1
        return watch

    def close(self, watch: KeyWatch) -> None:
        """Forget a watch."""
        self._count -= 1
        known, name = self._of_key, watch.key
        if watch.end is not None:
            known, name = self._of_start, _start_of(watch.key, watch.end)
            self._ranges -= 1
            self._lengths[len(name)] -= 1
            if not self._lengths[len(name)]:
                del self._lengths[len(name)]
        del known[name][watch]
        if not known[name]:
            del known[name]

    def changed(self, revision: int, keys: Sequence[str]) -> None:
        """These keys have changed: wake who waits for one of them."""
        for key in keys if self._of_key else ():
            for watch in self._of_key.get(key, ()):
                watch.changed(revision)
        if len(keys) * len(self._lengths) <= SEARCH_COST * self._ranges:
            for key in keys:
                for length in self._lengths:
                    for watch in self._of_start.get(key[:length], ()) if length <= len(key) else ():
                        if is_in(key, watch.key, watch.end):
                            watch.changed(revision)
            return
        # Many keys at once, or few ranges: one look for each range.
        ordered = sorted(keys)
        for watch in chain.from_iterable(self._of_start.values()):
            at = bisect_left(ordered, watch.key)
            if at < len(ordered) and is_in(ordered[at], watch.key, watch.end):
                watch.changed(revision)

    def replaced(self, revision: int) -> None:
        """The store is another one, and all changes after this revision may be new."""
        for watch in chain.from_iterable((*self._of_key.values(), *self._of_start.values())):
            watch.changed(revision + 1)


def _start_of(key: str, end: str) -> str:
    """What all keys of a range begin with."""
    if (key, end) == prefix(key):
        return key
    return key[: sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(key, end, strict=False)))]


def is_in(name: str, key: str, end: str | None) -> bool:
    """Whether a key is in a range."""
    return name == key if end is None else key <= name and (not end or name < end)


def item_size_bytes(item: Item) -> int:
    """The size of a key and its value in UTF-8."""
    return text_size_bytes(item.key) + text_size_bytes(item.value)


def text_size_bytes(text: str) -> int:
    """The size of a key or a value in bytes."""
    return len(text) if text.isascii() else len(value_bytes(text))


_LEASE_OF: Final = operator.itemgetter(4)
_SIZE_OF: Final = operator.itemgetter(5)


def _packed(item: Item) -> PackedItem:
    return item.value, item.created, item.modified, item.version, item.lease, text_size_bytes(item.value)


def _item(key: str, packed: PackedItem) -> Item:
    value, created, modified, version, lease, _ = packed
    return Item(key, value, created, modified, version, lease)


def _with_formers(
    changes: Iterable[tuple[int, str, PackedItem | None, PackedItem | None]],
) -> Iterator[KeyChange | KeyFormer]:
    seen: set[str] = set()
    for revision, key, packed, former in changes:
        if key not in seen:
            seen.add(key)
            if former is not None and former is not UNKNOWN:
                yield KeyFormer(_item(key, former))
        yield KeyChange(revision, key, None if packed is None else _item(key, packed))
