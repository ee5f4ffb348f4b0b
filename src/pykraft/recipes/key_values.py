"""The state machine of the key-value store: transactions on the keys, and leases that end by log time.

Invariants: the same commands give the same keys, revisions, leases and changes on every replica, whether it applied all
of them or began with a snapshot. A transaction is rejected as a whole, before it changes anything. What was serialized
as JSON comes back equal.

Source: ours (ADR 087); the model is that of etcd's version 3.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field, fields, is_dataclass
from heapq import heappop, heappush
from itertools import chain, starmap
from typing import Any, ClassVar, Final

from pykraft.client.listener import StableRecords
from pykraft.client.serde import Serde, from_json
from pykraft.errors import CommandRejectedError
from pykraft.machine.state_machine import Applied, StateMachine
from pykraft.recipes.key_space import KeySpace, item_size_bytes
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
        self._clear()

    def apply(self, command: KeyValueCommand, context: Applied) -> KeyValueResult:
        """See `pykraft.machine.StateMachine`."""
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
                self._tell()
        return None

    def validate(self, command: KeyValueCommand) -> None:
        """See `pykraft.machine.StateMachine`."""
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
        """See `pykraft.machine.StateMachine`."""
        head = StoreHead(self.space.revision, self.space.oldest_revision)
        leases = [(lease, state.ttl_ms, state.expires_ms) for lease, state in self._leases.items()]
        records = chain([head], starmap(LeaseState, leases), self.space.records())
        return StableRecords(map(SNAPSHOTS.serialize, records))

    def restore(self, records: Iterable[bytes]) -> None:
        """See `pykraft.machine.StateMachine`."""
        self._clear()
        for record in records:
            self._restore(record)
        self._tell()

    async def restore_stream(self, records: AsyncIterator[bytes]) -> None:
        """See `pykraft.machine.StateMachine`."""
        self._clear()
        async for record in records:
            self._restore(record)
        self._tell()

    def get(self, key: str) -> Item | None:
        """The item of this key."""
        return self.space.get(key)

    def range(self, key: str, end: str | None = None, limit: int | None = None) -> list[Item]:
        """The items of a range, in the order of their keys."""
        return self.space.range(key, end, limit)

    def _clear(self) -> None:
        self.space: KeySpace = KeySpace()
        """The keys and their changes."""
        self._leases: dict[int, _Lease] = {}
        self._expiries: list[tuple[int, int]] = []
        """A heap of log times and leases, with one entry for each lease; a lease that was kept ends later."""

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
        self._tell()
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
        self._tell()

    def _tell(self) -> None:
        for tell in tuple(self.on_change):
            tell()
