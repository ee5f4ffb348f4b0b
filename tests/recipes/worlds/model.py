"""A second, plain implementation of the key-value store, with which the one of the package is compared.

It knows dictionaries and lists only, keeps all changes for ever, and looks at every lease at every step.
"""

from dataclasses import dataclass
from typing import Any

from pykraft.errors import CommandRejectedError
from pykraft.recipes import Delete, Get, Item, KeyChange, Put, Transaction, TransactionResult
from pykraft.recipes.key_space import is_in
from pykraft.recipes.key_value_commands import (
    Compact,
    Condition,
    EndLease,
    GrantLease,
    KeepLease,
    KeyFormer,
    StoreOperation,
)
from pykraft.recipes.key_values import SNAPSHOTS, LeaseState, StoreHead


@dataclass(slots=True)
class ModelLease:
    """A lease: how long it lives, and the log time at which it ends."""

    ttl_ms: int
    expires_ms: int


class StoreModel:
    """The store after some commands; ``changes_max`` is the limit of the worlds."""

    def __init__(self, changes_max: int) -> None:
        self.items: dict[str, Item] = {}
        self.leases: dict[int, ModelLease] = {}
        self.revision = 0
        self.oldest_revision = 1
        self.history: list[KeyChange] = []
        """All changes that ever were."""
        self._changes_max = changes_max

    def elapse(self, time_ms: int) -> None:
        """The leases end whose time is over, in the order of their times."""
        over = sorted((one.expires_ms, lease) for lease, one in self.leases.items() if one.expires_ms <= time_ms)
        for _, lease in over:
            self._end(lease)

    def apply(self, command: object, offset: int, time_ms: int) -> Any:
        """The result. Errors: CommandRejectedError, whose text nobody compares."""
        match command:
            case Transaction():
                return self._transact(command)
            case GrantLease(ttl_ms):
                self.leases[offset] = ModelLease(ttl_ms, time_ms + ttl_ms)
                return offset
            case KeepLease(lease):
                found = self._lease(lease)
                found.expires_ms = time_ms + found.ttl_ms
            case EndLease(lease):
                if lease in self.leases:
                    self._end(lease)
            case Compact(revision):
                if revision > self.revision + 1:
                    raise CommandRejectedError("not yet")
                self.oldest_revision = max(self.oldest_revision, revision)
            case _:
                raise AssertionError(command)
        return None

    def _formers(self) -> list[KeyFormer]:
        """What the first kept change of each key replaced."""
        before = {one.key: one.item for one in self.history if one.revision < self.oldest_revision}
        changed = {one.key for one in self.history if one.revision >= self.oldest_revision}
        return [KeyFormer(item) for key, item in before.items() if key in changed and item is not None]

    def records(self) -> list[bytes]:
        """What a snapshot of the store has to hold, in any order."""
        states = [LeaseState(lease, one.ttl_ms, one.expires_ms) for lease, one in self.leases.items()]
        kept = [change for change in self.history if change.revision >= self.oldest_revision]
        found = [StoreHead(self.revision, self.oldest_revision), *states, *self.items.values(), *kept, *self._formers()]
        return [SNAPSHOTS.serialize(record) for record in found]

    def keys(self, key: str, end: str | None) -> list[str]:
        """The keys of a range, in their order."""
        return sorted(name for name in self.items if is_in(name, key, end))

    def _transact(self, transaction: Transaction) -> TransactionResult:
        succeeded = all(map(self._holds, transaction.conditions))
        chosen = transaction.then if succeeded else transaction.otherwise
        for one in chosen:
            if isinstance(one, Put) and one.lease:
                self._lease(one.lease)
        found = tuple(self._answer(one) for one in chosen if isinstance(one, Get))
        revision, deleted = self.revision + 1, 0
        for one in chosen:
            deleted += self._operate(one, revision)
        return TransactionResult(succeeded, self.revision, found, deleted)

    def _operate(self, one: StoreOperation, revision: int) -> int:
        if isinstance(one, Put):
            key = f"{one.key}{revision:016d}" if one.numbered else one.key
            former = self.items.get(key)
            created, version = (revision, 1) if former is None else (former.created, former.version + 1)
            self.items[key] = Item(key, one.value, created, revision, version, one.lease)
            self._changed(KeyChange(revision, key, self.items[key]))
        elif isinstance(one, Delete):
            keys = self.keys(one.key, one.end)
            for key in keys:
                del self.items[key]
                self._changed(KeyChange(revision, key, None))
            return len(keys)
        return 0

    def _answer(self, get: Get) -> tuple[Item, ...]:
        return tuple(self.items[key] for key in self.keys(get.key, get.end)[: get.limit])

    def _holds(self, condition: Condition) -> bool:
        item = self.items.get(condition.key)
        actual = {"value": None}.get(condition.field, 0) if item is None else getattr(item, condition.field)
        operand: Any = condition.operand
        if condition.operator == "==":
            return bool(actual == operand)
        if condition.operator == "!=":
            return bool(actual != operand)
        if actual is None or operand is None:
            return False
        return bool(actual < operand if condition.operator == "<" else actual > operand)

    def _lease(self, lease: int) -> ModelLease:
        if lease not in self.leases:
            raise CommandRejectedError("no such lease")
        return self.leases[lease]

    def _end(self, lease: int) -> None:
        revision = self.revision + 1
        for key in sorted(key for key, item in self.items.items() if item.lease == lease):
            del self.items[key]
            self._changed(KeyChange(revision, key, None))
        del self.leases[lease]

    def _changed(self, change: KeyChange) -> None:
        if change.revision > self.revision:
            kept = [one for one in self.history if one.revision >= self.oldest_revision]
            if len(kept) > self._changes_max:
                # The oldest quarter goes, in whole revisions.
                self.oldest_revision = kept[len(kept) // 4].revision + 1
        self.revision = change.revision
        self.history.append(change)
