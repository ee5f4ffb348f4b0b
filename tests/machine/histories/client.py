"""Clients of the key-value store on one node: what they call, and the lines that they write about it.

A line leaves in one write before the call and in one after it, so a kill -9 takes none back. Groups of keys live for
`GENERATION_NS`; clients of all nodes agree on the present ones by the machine's monotonic clock. So each group has few
calls and few open ones, and a search for its order is short. Some calls go to groups of former generations.
"""

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from pykraft.errors import OutcomeUnknownError, PykraftError, UsageError
from pykraft.recipes import Condition, Delete, Get, Item, KeyValueStore, Put, TransactionResult
from pykraft.recipes.key_value_commands import StoreOperation
from tests.machine.histories.events import TYPES

GENERATION_NS: Final = 4_000_000_000
GROUPS: Final = ("r0", "p1", "p2")
"""Of a generation: one of a single key with few values, which often come back, and two of two keys with unique ones."""
FEW: Final = 4
FORMER_SHARE: Final = 0.08
FORMER_GENERATIONS: Final = 8
TIMEOUT_MS: Final = 3_000
PAUSE_S_MAX: Final = 0.1
SHARES: Final = {"read": 6, "write": 5, "delete": 1, "cas": 4, "range": 2, "txn": 4}
OF_READERS: Final = {"read": 3, "range": 1}
"""A client that also writes soon waits for a write, when its node cannot reach the others; a reader reads on."""

monotonic_ns: Final = time.monotonic_ns
"""The machine's clock, whatever this process' other clocks are made to show."""


@dataclass(frozen=True, slots=True)
class Teller:
    """Writes lines about one life of one node."""

    descriptor: int
    node_id: int
    leads: Callable[[], bool]

    def event(self, process: int, type_: str, f: str, value: Any) -> None:
        """An event of the history, now."""
        assert type_ in TYPES, type_
        self.write(process=process, type=type_, f=f, value=value)

    def write(self, **words: Any) -> None:
        """Any line."""
        words |= {"time": monotonic_ns(), "node": self.node_id, "leads": self.leads()}
        os.write(self.descriptor, json.dumps(words, separators=(",", ":")).encode() + b"\n")


class StoreClient:
    """One client: one call after the other."""

    def __init__(
        self,
        store: KeyValueStore,
        teller: Teller,
        rng: Random,
        number: Callable[[], int],
        process: Callable[[], int],
        shares: Mapping[str, int] = SHARES,
    ) -> None:
        """``number`` gives values that nobody else writes, ``process`` numbers of processes that nobody else has.

        ``shares`` say how often it calls what.
        """
        self._shares = shares
        self._store = store
        self._teller = teller
        self._rng = rng
        self._number = number
        self._next_process = process
        self._process = process()
        self._seen: dict[str, int | None] = {}
        """What this client met last, by key."""

    async def run(self, enough: asyncio.Event, pause_s_max: float = PAUSE_S_MAX) -> None:
        """Call until it is enough."""
        while not enough.is_set():
            await self._call(*self._drawn())
            try:
                await asyncio.wait_for(enough.wait(), self._rng.uniform(0, pause_s_max))
            except TimeoutError:
                continue

    def _drawn(self) -> tuple[str, list[Any]]:
        """The next call: its kind, and what the invoke says."""
        rng = self._rng
        [f] = rng.choices([*self._shares], [*self._shares.values()])
        generation = monotonic_ns() // GENERATION_NS
        if rng.random() < FORMER_SHARE:
            generation -= rng.randint(1, FORMER_GENERATIONS)
        kind, index = rng.choice(GROUPS)
        if kind == "r" and f in {"range", "txn"}:
            f = "read"
        group = f"{kind}{generation}-{index}"
        key = f"{group}/{rng.choice('ab') if kind == 'p' else 'a'}"
        if f == "write":
            return f, [key, self._value(key)]
        if f == "cas":
            return f, [key, [self._expected(key), self._value(key)]]
        if f == "txn":
            return f, [group, self._transaction(f"{group}/a", f"{group}/b")]
        return f, [group if f == "range" else key, None]

    def _value(self, key: str) -> int:
        return self._number() if key[0] == "p" else self._rng.randrange(FEW)

    def _expected(self, key: str) -> int | None:
        if key[0] == "r" and self._rng.random() < 0.5:
            return self._rng.randrange(FEW)
        return self._seen.get(key)

    def _transaction(self, one: str, other: str) -> dict[str, Any]:
        both = [["r", one, None], ["r", other, None]]
        match self._rng.randrange(3):
            case 0:
                return {"if": [], "then": [*both, ["w", one, self._value(one)], ["d", other]], "else": []}
            case 1:
                writes = [["w", one, self._value(one)], ["w", other, self._value(other)]]
                return {"if": [[one, self._expected(one)]], "then": [both[1], *writes], "else": both}
            case _:
                conditions = [[one, self._expected(one)], [other, self._expected(other)]]
                return {"if": conditions, "then": [["w", other, self._value(other)]], "else": both}

    async def _call(self, f: str, value: list[Any]) -> None:
        self._teller.event(self._process, "invoke", f, value)
        try:
            answer = await self._acts[f](self, *value)
        except OutcomeUnknownError:
            self._teller.event(self._process, "info", f, value)
            self._process = self._next_process()  # the former one still waits, for ever
        except UsageError:
            raise  # a mistake of this program
        except PykraftError:
            # Certainly not applied. A read that failed told nothing and changed nothing.
            self._teller.event(self._process, "fail", f, value)
        else:
            self._teller.event(self._process, "ok", f, answer)

    async def _read(self, key: str, _: None) -> list[Any]:
        self._seen[key] = found = _value_of(await self._store.get(key))
        return [key, found]

    async def _write(self, key: str, value: int) -> list[Any]:
        await self._store.put(key, str(value))
        self._seen[key] = value
        return [key, value]

    async def _delete(self, key: str, _: None) -> list[Any]:
        return [key, await self._store.delete(key)]

    async def _cas(self, key: str, pair: list[int | None]) -> list[Any]:
        expected, value = pair
        has_set = await self._store.compare_and_set(key, _text(expected), str(value))
        if has_set:
            self._seen[key] = value
        return [key, pair, has_set]

    async def _range(self, group: str, _: None) -> list[Any]:
        items = {item.key: item for item in await self._store.range(f"{group}/", f"{group}0")}
        found = [_value_of(items.get(f"{group}/{one}")) for one in "ab"]
        self._seen |= {f"{group}/{one}": value for one, value in zip("ab", found, strict=True)}
        return [group, found]

    async def _txn(self, group: str, asked: dict[str, Any]) -> list[Any]:
        conditions = [Condition(key, "value", "==", _text(value)) for key, value in asked["if"]]
        then, otherwise = (list(map(_operation, asked[branch])) for branch in ("then", "else"))
        result = await self._store.transact(then, conditions, otherwise)
        branch = "then" if result.succeeded else "else"
        told = {**asked, branch: self._filled(asked[branch], result)}
        return [group, {**told, "succeeded": result.succeeded, "deleted": result.deleted}]

    def _filled(self, operations: list[list[Any]], result: TransactionResult) -> list[list[Any]]:
        """The operations with what each Get found."""
        found = iter(result.found)
        filled = []
        for kind, key, *rest in operations:
            if kind == "r":
                items = next(found)
                self._seen[key] = _value_of(items[0] if items else None)
            filled.append([kind, key, self._seen[key]] if kind == "r" else [kind, key, *rest])
        return filled

    _acts: Final[dict[str, Callable[..., Awaitable[list[Any]]]]] = {
        "read": _read,
        "write": _write,
        "delete": _delete,
        "cas": _cas,
        "range": _range,
        "txn": _txn,
    }


def _operation(words: list[Any]) -> StoreOperation:
    kind, key, *rest = words
    if kind == "w":
        return Put(key, str(rest[0]))
    return Get(key) if kind == "r" else Delete(key)


def _text(value: int | None) -> str | None:
    return None if value is None else str(value)


def _value_of(item: Item | None) -> int | None:
    return None if item is None else int(item.value)
