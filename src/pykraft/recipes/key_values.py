"""The state machine of the key-value store: transactions on the keys, the changes that a watch reads, and leases.

Invariants: the same commands give the same keys, revisions, leases and changes on every replica, whether it applied all
of them or began with a snapshot. A transaction is rejected as a whole, before it changes anything. The changes from
``oldest_revision`` on are complete, and all changes of one revision are kept or dropped together. What was serialized
as JSON comes back equal.

Items and changes are plain tuples: a full garbage collection over a million objects of a class stops the loop for a
third of a second. A snapshot reads a view of the items, which change on meanwhile: it copies the list of the keys, and
gets each item before that is changed. A copy of a GiB of items stopped the loop for tens of milliseconds.

Source: ours (ADR 084, ADR 087, ADR 103); the model is that of etcd's version 3.
"""

from __future__ import annotations

import json
import operator
from bisect import bisect_left, insort
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from heapq import heappop, heappush
from itertools import chain, starmap
from typing import Any, ClassVar, Final, TypeAlias
from weakref import ref

from pykraft.client.listener import StableRecords
from pykraft.client.serde import Serde, from_json
from pykraft.errors import CommandRejectedError, CompactedError
from pykraft.machine.state_machine import Applied, StateMachine
from pykraft.recipes.key_value_commands import (
    Compact,
    Condition,
    Delete,
    EndLease,
    Get,
    GrantLease,
    Item,
    KeepLease,
    KeyChange,
    KeyValueCommand,
    KeyValueResult,
    Put,
    Transaction,
    TransactionResult,
    check_command,
)

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


@dataclass(frozen=True, slots=True)
class StoreHead:
    """The first record of a snapshot."""

    revision: int
    oldest_revision: int


@dataclass(frozen=True, slots=True)
class LeaseState:
    """A lease in a snapshot."""

    lease: int
    ttl_ms: int
    expires_ms: int


class RecordSerde:
    """Dataclasses, also within each other, as JSON lists: ``["Put","color","red",0,false]``; a tuple as a list."""

    def __init__(self, *classes: type, check: Callable[[object], None] | None = None) -> None:
        self._classes = {one.__name__: one for one in classes}
        self._check = check

    def serialize(self, record: Any) -> bytes:  # noqa: ANN401 - any of the classes
        """Errors: what ``check`` raises."""
        if self._check is not None:
            self._check(record)
        return json.dumps(_plain(record), ensure_ascii=False, separators=(",", ":")).encode()

    def deserialize(self, data: bytes) -> Any:  # noqa: ANN401 - as above
        """Errors: ValueError, TypeError or KeyError for what is none of these."""
        return self._built(from_json(data))

    def _built(self, value: Any) -> Any:  # noqa: ANN401 - JSON
        if not isinstance(value, list):
            return value
        if value and isinstance(value[0], str):
            return self._classes[value[0]](*map(self._built, value[1:]))
        return tuple(map(self._built, value))


def _plain(value: Any) -> Any:  # noqa: ANN401 - JSON
    if is_dataclass(value):
        return [type(value).__name__, *(_plain(getattr(value, field.name)) for field in fields(value))]
    return [_plain(one) for one in value] if isinstance(value, tuple) else value


COMMANDS: Final = RecordSerde(
    Transaction, Condition, Get, Put, Delete, GrantLease, KeepLease, EndLease, Compact, check=check_command
)
RESULTS: Final = RecordSerde(TransactionResult, Item)
SNAPSHOTS: Final = RecordSerde(StoreHead, LeaseState, Item, KeyChange)


KEYS_MAX: Final = 1_000_000
SIZE_BYTES_MAX: Final = 1 << 30
"""Keys and values together. Part of the format, as all of these: all replicas must agree."""
LEASES_MAX: Final = 100_000
DELETED_MAX: Final = 10_000
"""Keys that one transaction deletes, and keys of one lease, which end together."""
FOUND_SIZE_BYTES_MAX: Final = 1 << 18
"""Items in the result of one transaction: results are kept until the client has them."""


@dataclass(slots=True)
class _Lease:
    ttl_ms: int
    expires_ms: int
    keys: set[str] = field(default_factory=set)


class KeyValues(StateMachine[KeyValueCommand, KeyValueResult]):
    """The store on one node; `pykraft.recipes.KeyValueStore` asks it."""

    commands: ClassVar[Serde[Any]] = COMMANDS
    results: ClassVar[Serde[Any]] = RESULTS

    def __init__(self) -> None:
        self.on_change: dict[Callable[[], object], None] = {}
        """Called when the store has changed, in this order, for watches; no part of the state."""
        self.space: KeySpace = KeySpace()
        """The keys and their changes."""
        self._leases: dict[int, _Lease] = {}
        self._expiries: list[tuple[int, int]] = []
        """A heap of log times and leases, with one entry for each lease; a lease that was kept ends later."""

    def apply(self, command: KeyValueCommand, context: Applied) -> KeyValueResult:
        match command:
            case Transaction():
                return self._transact(command)
            case GrantLease(ttl_ms):
                if len(self._leases) >= LEASES_MAX:
                    raise CommandRejectedError(f"{LEASES_MAX} leases are open: end one first")
                self._open(LeaseState(context.offset, ttl_ms, context.time_ms + ttl_ms))
                return context.offset
            case KeepLease(lease):
                found = self._lease(lease)
                found.expires_ms = context.time_ms + found.ttl_ms
            case EndLease(lease):
                self._end(lease)
            case Compact(revision):
                if revision > self.space.revision + 1:
                    raise CommandRejectedError(f"the store is at revision {self.space.revision}, not yet at {revision}")
                self.space.compact(revision)
                self._notify()
        return None

    def validate(self, command: KeyValueCommand) -> None:
        check_command(command)

    def deadline_ms(self) -> int | None:
        """When a lease may end, see `pykraft.machine.StateMachine`."""
        return self._expiries[0][0] if self._expiries else None

    def elapse(self, context: Applied) -> None:
        """End the leases whose time is over, see `pykraft.machine.StateMachine`."""
        while self._expiries and self._expiries[0][0] <= context.time_ms:
            expired_ms, lease = heappop(self._expiries)
            found = self._leases.get(lease)
            if found is not None and found.expires_ms == expired_ms:
                self._end(lease)
            elif found is not None:
                # It was kept. Even if its new time is over as well, it ends in its turn: a replica that began with a
                # snapshot knows only the new time, and the order of two ends is seen in their revisions.
                heappush(self._expiries, (found.expires_ms, lease))

    def snapshot(self) -> StableRecords[bytes]:
        head = StoreHead(self.space.revision, self.space.oldest_revision)
        leases = [(lease, state.ttl_ms, state.expires_ms) for lease, state in self._leases.items()]
        records = chain([head], starmap(LeaseState, leases), self.space.records())
        return StableRecords(map(SNAPSHOTS.serialize, records))

    def restore(self, records: Iterable[bytes]) -> None:
        aside = KeyValues()
        for record in records:
            aside._restore(record)
        self._replace_by(aside)

    async def restore_stream(self, records: AsyncIterator[bytes]) -> None:
        # Watches read the store while the snapshot is read. In half of a state they would miss what is not there yet.
        aside = KeyValues()
        async for record in records:
            aside._restore(record)
        self._replace_by(aside)

    def get(self, key: str) -> Item | None:
        """The item of this key."""
        return self.space.get(key)

    def range(self, key: str, end: str | None = None, limit: int | None = None) -> list[Item]:
        """The items of a range, in the order of their keys."""
        return self.space.range(key, end, limit)

    def _replace_by(self, other: KeyValues) -> None:
        self.space, self._leases, self._expiries = other.space, other._leases, other._expiries
        self._notify()

    def _restore(self, data: bytes) -> None:
        record = SNAPSHOTS.deserialize(data)
        match record:
            case StoreHead(revision, oldest_revision):
                self.space.revision, self.space.oldest_revision = revision, oldest_revision
            case LeaseState():
                self._open(record)
            case Item():
                self.space.load(record)
                self._attach(record)
            case KeyChange():
                self.space.load_changes([record])

    def _transact(self, transaction: Transaction) -> TransactionResult:
        succeeded = all(map(self.space.holds, transaction.conditions))
        chosen = transaction.then if succeeded else transaction.otherwise
        found = tuple(tuple(self.range(one.key, one.end, one.limit)) for one in chosen if isinstance(one, Get))
        if sum(item_size_bytes(item) for items in found for item in items) > FOUND_SIZE_BYTES_MAX:
            raise CommandRejectedError(f"it finds more than {FOUND_SIZE_BYTES_MAX} bytes: lower the limit of its Get")
        self._require_room([one for one in chosen if isinstance(one, Put)])
        gone = sum(len(self.space.keys_in(one.key, one.end)) for one in chosen if isinstance(one, Delete))
        if gone > DELETED_MAX:
            raise CommandRejectedError(f"it deletes {gone} keys: at most {DELETED_MAX} at a time")
        revision, deleted = self.space.revision + 1, 0
        for one in chosen:
            if isinstance(one, Put):
                self._put(one, revision)
            elif isinstance(one, Delete):
                keys = self.space.keys_in(one.key, one.end)
                deleted += len(keys)
                self._delete(keys, revision)
        self._notify()
        return TransactionResult(succeeded, self.space.revision, found, deleted)

    def _require_room(self, puts: list[Put]) -> None:
        """Errors: CommandRejectedError for what would make the store larger than it may be, and for unknown leases."""
        space = self.space
        if len(space.keys) + len(puts) > KEYS_MAX:
            raise CommandRejectedError(f"the store has {len(space.keys)} keys, and may have {KEYS_MAX}")
        if space.size_bytes + sum(len(one.key.encode()) + len(one.value.encode()) for one in puts) > SIZE_BYTES_MAX:
            raise CommandRejectedError(f"the store has {space.size_bytes} bytes, and may have {SIZE_BYTES_MAX}")
        for one in puts:
            if one.lease and len(self._lease(one.lease).keys) + len(puts) > DELETED_MAX:
                raise CommandRejectedError(f"lease {one.lease} has {DELETED_MAX} keys: open another one")

    def _put(self, put: Put, revision: int) -> None:
        key = f"{put.key}{revision:016d}" if put.numbered else put.key
        former = self.space.get(key)
        if former is None:
            item = Item(key, put.value, revision, revision, 1, put.lease)
        else:
            self._detach(former)
            item = Item(key, put.value, former.created, revision, former.version + 1, put.lease)
        self.space.put(item)
        self._attach(item)

    def _delete(self, keys: Iterable[str], revision: int) -> None:
        for key in keys:
            item = self.space.get(key)
            assert item is not None
            self._detach(item)
            self.space.delete(key, revision)

    def _attach(self, item: Item) -> None:
        if item.lease:
            self._leases[item.lease].keys.add(item.key)

    def _detach(self, item: Item) -> None:
        if item.lease:
            self._leases[item.lease].keys.discard(item.key)

    def _lease(self, lease: int) -> _Lease:
        found = self._leases.get(lease)
        if found is None:
            raise CommandRejectedError(f"lease {lease} has ended, or never was")
        return found

    def _open(self, state: LeaseState) -> None:
        self._leases[state.lease] = _Lease(state.ttl_ms, state.expires_ms)
        heappush(self._expiries, (state.expires_ms, state.lease))

    def _end(self, lease: int) -> None:
        found = self._leases.get(lease)
        if found is None:
            return
        # Sorted: a set has another order in each process.
        self._delete(sorted(found.keys), self.space.revision + 1)
        del self._leases[lease]
        if len(self._expiries) > 2 * len(self._leases) + 64:
            # Mostly leases that were ended early.
            self._expiries = sorted((state.expires_ms, one) for one, state in self._leases.items())
        self._notify()

    def _notify(self) -> None:
        for tell in tuple(self.on_change):
            tell()
