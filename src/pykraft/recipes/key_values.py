"""The state machine of the key-value store: transactions on its keys (`pykraft.recipes.key_space`), and leases.

Invariants: the same commands give the same keys, revisions, leases and changes on every replica, whether it applied all
of them or began with a snapshot. A transaction is rejected as a whole, before it changes anything. What was serialized
as JSON comes back equal. No record takes longer than some ten milliseconds to apply, however large the store is.

Source: ours (ADR 084, ADR 087, ADR 103, ADR 181); the model is that of etcd's version 3.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from heapq import heapify, heappop
from io import BytesIO
from itertools import chain, islice, starmap
from operator import attrgetter
from typing import Any, ClassVar, Final

import msgspec

from pykraft.client.arguments import whole_number
from pykraft.client.listener import StableRecords
from pykraft.client.serde import Serde, from_json
from pykraft.errors import CommandRejectedError, UsageError
from pykraft.host.metrics import Metric, MetricKind, ours
from pykraft.machine.state_machine import Applied, StateMachine
from pykraft.recipes.key_space import KeySpace, KeyWatches, SortedValues, item_size_bytes, text_size_bytes
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
    KeyFormer,
    KeyValueCommand,
    KeyValueResult,
    Put,
    Transaction,
    TransactionResult,
    check_command,
    numbered_key,
    prefix,
    value_bytes,
    value_of,
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


JSON_SIZE_BYTES_MAX: Final = 60_000
"""A longer command has its texts behind the JSON. Part of the format: replicas compare commands as bytes."""


class RecordSerde:
    """Dataclasses, also within each other, as JSON lists: ``["Put","color","red",0,false]``; a tuple as a list.

    JSON escapes line feeds and other characters, which makes a text two to six times as long. Where that is too much,
    texts come behind the lists instead, as they are: a zero byte, then all of them, and in the place of each
    ``{"bytes":N}``. A shorter record is the same JSON as ever, which older versions read, too. A value that is not
    UTF-8 is `BINARY_MARK` and base64, and so is one that begins with this mark.
    """

    def __init__(
        self, *classes: type, check: Callable[[object], None] | None = None, json_max: int = JSON_SIZE_BYTES_MAX
    ) -> None:
        """Older versions refuse commands that are longer as JSON than ``json_max``."""
        self._classes = {one.__name__: one for one in classes}
        names = {one: one.__match_args__ for one in classes}  # type: ignore[attr-defined]
        self._fields = {one: attrgetter("__class__.__name__", *names[one]) for one in classes}
        self._check = check
        self._json_max = json_max

    def serialize(self, record: Any) -> bytes:  # noqa: ANN401 - any of the classes
        """Errors: what ``check`` raises."""
        if self._check is not None:
            self._check(record)
        data = _encode(self._plain(record))
        if len(data) <= self._json_max:
            return data
        texts: list[bytes] = []
        return b"\0".join([_encode(_without_texts(from_json(data), texts)), b"".join(texts)])

    def deserialize(self, data: bytes) -> Any:  # noqa: ANN401 - as above
        """Errors: ValueError, TypeError or KeyError for what is none of these."""
        plain, _, texts = data.partition(b"\0")
        return self._built(from_json(plain), BytesIO(texts))

    def _plain(self, value: Any) -> Any:  # noqa: ANN401 - JSON
        kind = type(value)
        if kind is Item:
            marked = _marked(value.value)
            return value if marked is value.value else msgspec.structs.replace(value, value=marked)
        if kind is tuple:
            return [*map(self._plain, value)]
        fields_of = self._fields.get(kind)
        if fields_of is None:
            return value
        name, *parts = fields_of(value)
        at = _VALUE_AT.get(kind)
        if at is None:
            return [name, *map(self._plain, parts)]
        if isinstance(parts[at], str):
            parts[at] = _marked(parts[at])
        return [name, *parts]

    def _built(self, value: Any, texts: BytesIO) -> Any:  # noqa: ANN401 - JSON
        if isinstance(value, dict):
            return texts.read(value["bytes"]).decode()
        if not isinstance(value, list):
            return value
        if value and isinstance(value[0], str):
            one_class = self._classes[value[0]]
            parts = [one if type(one) in _PLAIN else self._built(one, texts) for one in value[1:]]
            at = _VALUE_AT.get(one_class)
            if at is not None and str(parts[at])[:1] == "\0" and parts[at].startswith(BINARY_MARK):
                with suppress(ValueError):  # an older program put this text without the service
                    parts[at] = value_of(b64decode(parts[at].removeprefix(BINARY_MARK), validate=True))
            return one_class(*parts)
        return tuple([self._built(one, texts) for one in value])


BINARY_MARK: Final = "\0base64:"
_VALUE_AT: Final[dict[type, int]] = {Item: 1, Put: 1, Condition: 3}
"""Which of their fields is a value; none of their fields has a record in it."""
_PLAIN: Final = frozenset({str, int, bool, type(None)})


def _marked(value: str) -> str:
    if value.isascii() and value[:1] != "\0":
        return value  # nearly all of them, and quick
    if not value.startswith(BINARY_MARK):
        try:
            value.encode()
        except UnicodeEncodeError:
            pass
        else:
            return value
    return BINARY_MARK + b64encode(value_bytes(value)).decode("ascii")


_encode: Final = msgspec.json.Encoder().encode


def _without_texts(value: Any, texts: list[bytes]) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, str):
        texts.append(value.encode())
        return {"bytes": len(texts[-1])}
    if not isinstance(value, list):
        return value
    is_record = bool(value) and isinstance(value[0], str)
    return [*value[:is_record], *(_without_texts(one, texts) for one in value[is_record:])]


COMMANDS: Final = RecordSerde(
    Transaction, Condition, Get, Put, Delete, GrantLease, KeepLease, EndLease, Compact, check=check_command
)
RESULTS: Final = RecordSerde(TransactionResult, Item, json_max=1 << 30)  # older nodes have results in snapshots
SNAPSHOTS: Final = RecordSerde(StoreHead, LeaseState, Item, KeyChange, KeyFormer)


KEYS_MAX: Final = 1_000_000
SIZE_BYTES_MAX: Final = 1 << 30
"""Keys and values together. Part of the format, as all of these: all replicas must agree."""
LEASES_MAX: Final = 100_000
DELETED_MAX: Final = 10_000
"""Keys that one transaction deletes, and keys of one lease."""
ENDED_MAX: Final = 500
"""Keys and leases that end at one record; more of them end one after the other, as fast as records come."""
FOUND_SIZE_BYTES_MAX: Final = 1 << 18
"""Items in the result of one transaction: results are kept until the client has them."""


_KEYS: Final = ours("store-keys", MetricKind.GAUGE, "keys", "keys of the store")
_SIZE: Final = ours("store-size-bytes", MetricKind.GAUGE, "bytes", "all keys and values")
_REVISION: Final = ours("store-revision", MetricKind.GAUGE, "revision", "revision of the last change")
_OLDEST: Final = ours("store-oldest-revision", MetricKind.GAUGE, "revision", "the oldest one that is kept")
_LEASES: Final = ours("store-leases", MetricKind.GAUGE, "leases", "open leases")
_WATCHES: Final = ours("store-watches", MetricKind.GAUGE, "watches", "watches of this node")
_JOBS: Final = ours(
    "store-jobs", MetricKind.GAUGE, "jobs", "jobs of all queues that are not done, without dead letters"
)
_CLAIMED: Final = ours(
    "store-claimed-jobs", MetricKind.GAUGE, "jobs", "those a worker has, or that wait after a failure"
)
_DEAD: Final = ours("store-dead-letters", MetricKind.GAUGE, "jobs", "jobs that failed too often")
STORE_METRICS: Final = (_KEYS, _SIZE, _REVISION, _OLDEST, _LEASES, _WATCHES, _JOBS, _CLAIMED, _DEAD)
"""All of them, in the order of the documentation."""
QUEUES: Final = "pykraft/queue/"
"""What the keys of `pykraft.recipes.JobQueue` begin with; then come the queue's name, and the kind of key."""
QUEUES_MAX: Final = 1_000
"""Queues whose jobs are counted."""


@dataclass(slots=True)
class _Lease:
    ttl_ms: int
    expires_ms: int
    keys: set[str] = field(default_factory=set)
    ending: list[str] | None = None
    """Once it is over: a heap of the keys that are left."""


class KeyValues(StateMachine[KeyValueCommand, KeyValueResult]):
    """The store on one node; `pykraft.recipes.KeyValueStore` asks it."""

    commands: ClassVar[Serde[Any]] = COMMANDS
    results: ClassVar[Serde[Any]] = RESULTS
    snapshot_version: ClassVar[int] = 1
    """Version 0 has no `KeyFormer`."""

    def __init__(self) -> None:
        self.watches: KeyWatches = KeyWatches()
        """The watches of this node, which hear of changes; no part of the state."""
        self.shared: dict[object, object] = {}
        """What the recipes of this node have in common; no part of the state."""
        self.space: KeySpace = KeySpace()
        """The keys and their changes."""
        self._leases: dict[int, _Lease] = {}
        self._expiries: SortedValues[tuple[int, int]] = SortedValues()
        """The log times at which leases end, with the leases."""

    def apply(self, command: KeyValueCommand, context: Applied) -> KeyValueResult:
        match command:
            case Transaction():
                return self._transact(command, context.time_ms)
            case GrantLease(ttl_ms):
                if len(self._leases) >= LEASES_MAX:
                    raise CommandRejectedError(f"{LEASES_MAX} leases are open: end one first")
                self._open(LeaseState(context.offset, ttl_ms, context.time_ms + ttl_ms))
                return context.offset
            case KeepLease(lease):
                self._move_end(lease, context.time_ms + self._lease(lease, context.time_ms).ttl_ms)
            case EndLease(lease):
                ending = self._leases.get(lease)
                if ending is not None:
                    self._move_end(lease, min(ending.expires_ms, context.time_ms))
                    self._end(lease)
            case Compact(revision):
                if revision > self.space.revision + 1:
                    raise CommandRejectedError(f"the store is at revision {self.space.revision}, not yet at {revision}")
                self.space.compact(revision)
        return None

    def validate(self, command: KeyValueCommand) -> None:
        check_command(command)

    def deadline_ms(self) -> int | None:
        """When a lease ends, see `pykraft.machine.StateMachine`."""
        first = self._expiries.first()
        return None if first is None else first[0]

    def elapse(self, context: Applied) -> None:
        """End the leases whose time is over, see `pykraft.machine.StateMachine`.

        They end in the order of their last times. Of many leases or keys, those that are left end at the next records;
        until then the keys are there, and nobody can keep such a lease or put a key with it any more.
        """
        left = ENDED_MAX
        while left > 0 and (first := self._expiries.first()) is not None and first[0] <= context.time_ms:
            left -= 1 + self._end(first[1])

    def metrics(self) -> Mapping[Metric, float]:
        """See `pykraft.machine.StateMachine`."""
        space = self.space
        queues = [*islice(self._queues(), QUEUES_MAX)]
        jobs = {
            metric: sum(space.count(*prefix(f"{queue}{kind}/")) for queue in queues)
            for metric, kind in ((_JOBS, "job"), (_CLAIMED, "claim"), (_DEAD, "buried"))
        }
        return {
            _KEYS: len(space.keys),
            _SIZE: space.size_bytes,
            _REVISION: space.revision,
            _OLDEST: space.oldest_revision,
            _LEASES: len(self._leases),
            _WATCHES: len(self.watches),
            **jobs,
        }

    def _queues(self) -> Iterator[str]:
        """What the keys of each queue begin with: one look for each queue, however many jobs it has."""
        key, end = prefix(QUEUES)
        while (found := next(self.space.keys_in(key, end), None)) is not None:
            name = found[len(QUEUES) :].partition("/")[0]
            yield f"{QUEUES}{name}/"
            key = prefix(f"{QUEUES}{name}/")[1]

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

    def get(self, key: str, revision: int | None = None) -> Item | None:
        """The item of this key. Errors: as `range`."""
        if revision is None:
            return self.space.get(key)
        items = self.range(key, revision=revision)
        return items[0] if items else None

    def range(
        self, key: str, end: str | None = None, limit: int | None = None, revision: int | None = None
    ) -> list[Item]:
        """The items of a range, in the order of their keys, as they are or were at a revision.

        Errors: CompactedError names the oldest revision; UsageError for one that is yet to come.
        """
        if revision is None:
            return self.space.range(key, end, limit)
        if whole_number("revision", revision, least=1) > self.space.revision:
            raise UsageError(f"revision = {revision}: the last change has revision {self.space.revision}")
        return self.space.range_at(revision, key, end, limit)

    def _replace_by(self, other: KeyValues) -> None:
        revision = self.space.revision
        other.space.loaded()
        self.space, self._leases, self._expiries = other.space, other._leases, other._expiries
        self.watches.replaced(revision)

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
                self.space.load_change(record)
            case KeyFormer(item):
                self.space.load_former(item)

    def _transact(self, transaction: Transaction, time_ms: int) -> TransactionResult:
        succeeded = all(map(self.space.holds, transaction.conditions))
        chosen = transaction.then if succeeded else transaction.otherwise
        found = tuple(tuple(self.range(one.key, one.end, one.limit)) for one in chosen if isinstance(one, Get))
        items = [*chain.from_iterable(found)]
        size = sum([len(item.key) + len(item.value) for item in items])
        if size <= FOUND_SIZE_BYTES_MAX:  # in characters, of which each has a byte or more
            size = text_size_bytes("".join([item.key + item.value for item in items]))
        if size > FOUND_SIZE_BYTES_MAX:
            raise CommandRejectedError(f"it finds more than {FOUND_SIZE_BYTES_MAX} bytes: lower the limit of its Get")
        self._require_room([one for one in chosen if isinstance(one, Put)], time_ms)
        gone = sum(self.space.count(one.key, one.end) for one in chosen if isinstance(one, Delete))
        if gone > DELETED_MAX:
            raise CommandRejectedError(f"it deletes {gone} keys: at most {DELETED_MAX} at a time")
        revision, deleted = self.space.revision + 1, 0
        for one in chosen:
            if isinstance(one, Put):
                self._put(one, revision)
            elif isinstance(one, Delete):
                deleted += self._delete([*self.space.keys_in(one.key, one.end)], revision)
        self._notify(revision)
        return TransactionResult(succeeded, self.space.revision, found, deleted)

    def _require_room(self, puts: list[Put], time_ms: int) -> None:
        """Errors: CommandRejectedError for what would make the store larger than it may be, and for unknown leases."""
        space = self.space
        size = sum([text_size_bytes(put.key) + text_size_bytes(put.value) for put in puts])
        leases = {put.lease for put in puts if put.lease}
        has_room = len(space.keys) + len(puts) <= KEYS_MAX and space.size_bytes + size <= SIZE_BYTES_MAX
        if has_room and all(len(self._lease(lease, time_ms).keys) + len(puts) <= DELETED_MAX for lease in leases):
            return
        # Keys that exist already take no place, and their new values only what they are longer by.
        keys = {(put.key, put.numbered): put for put in puts}
        known = {key: None if is_numbered else space.get(key) for key, is_numbered in keys}
        added = sum(item is None for item in known.values())
        if len(space.keys) + added > KEYS_MAX and added:
            raise CommandRejectedError(f"the store has {len(space.keys)} keys, and may have {KEYS_MAX}")
        size = sum(text_size_bytes(put.key) + text_size_bytes(put.value) for put in keys.values())
        growth = size - sum(item_size_bytes(item) for item in known.values() if item is not None)
        if space.size_bytes + growth > SIZE_BYTES_MAX and growth > 0:
            raise CommandRejectedError(f"the store has {space.size_bytes} bytes, and may have {SIZE_BYTES_MAX}")
        for lease in leases:
            held = self._lease(lease, time_ms).keys
            joined = sum(put.lease == lease and put.key not in held for put in keys.values())
            if len(held) + joined > DELETED_MAX and joined:
                raise CommandRejectedError(f"lease {lease} has {DELETED_MAX} keys: open another one")

    def _put(self, put: Put, revision: int) -> None:
        key = numbered_key(put.key, revision) if put.numbered else put.key
        former = self.space.get(key)
        if former is None:
            item = Item(key, put.value, revision, revision, 1, put.lease)
        else:
            self._detach(former)
            item = Item(key, put.value, former.created, revision, former.version + 1, put.lease)
        self.space.put(item)
        self._attach(item)

    def _delete(self, keys: Sequence[str], revision: int) -> int:
        for lease, key in self.space.delete(keys, revision):
            self._leases[lease].keys.discard(key)
        return len(keys)

    def _attach(self, item: Item) -> None:
        if item.lease:
            self._leases[item.lease].keys.add(item.key)

    def _detach(self, item: Item) -> None:
        if item.lease:
            self._leases[item.lease].keys.discard(item.key)

    def _lease(self, lease: int, time_ms: int) -> _Lease:
        found = self._leases.get(lease)
        if found is None or found.expires_ms <= time_ms:
            raise CommandRejectedError(f"lease {lease} has ended, or never was")
        return found

    def _open(self, state: LeaseState) -> None:
        self._leases[state.lease] = _Lease(state.ttl_ms, state.expires_ms)
        self._expiries.add((state.expires_ms, state.lease))

    def _move_end(self, lease: int, expires_ms: int) -> None:
        state = self._leases[lease]
        self._expiries.remove([(state.expires_ms, lease)])
        state.expires_ms = expires_ms
        self._expiries.add((expires_ms, lease))

    def _end(self, lease: int) -> int:
        """Delete the first keys of a lease that is over, and end it if it has no more; returns how many there were."""
        state, revision = self._leases[lease], self.space.revision + 1
        # In their order: a set has another one in each process. No key joins a lease that is over.
        if state.ending is None:
            state.ending = [*state.keys]
            heapify(state.ending)
        first = [heappop(state.ending) for _ in range(min(ENDED_MAX, len(state.ending)))]
        count = self._delete([key for key in first if key in state.keys], revision)
        if not state.keys:
            del self._leases[lease]
            self._expiries.remove([(state.expires_ms, lease)])
        self._notify(revision)
        return count

    def _notify(self, revision: int) -> None:
        """The store may have changed at this revision."""
        if self.watches and self.space.revision == revision:
            self.watches.changed(revision, self.space.changed_keys(revision))
