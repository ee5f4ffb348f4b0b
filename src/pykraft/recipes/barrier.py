"""A barrier: programs wait for each other, and go on when enough of them are there. It can be used again and again.

How it works, on a `KeyValueStore`:

1. Whoever arrives puts a numbered key with a lease of its own, so that the dead do not count.
2. Whoever sees enough of them marks the keys of the first ones, in one transaction, if all of them are still there.
3. Whoever sees its own key marked goes on, with its place among them.

Source: ours (ADR 087).
"""

from __future__ import annotations

from contextlib import aclosing
from typing import Final

from pykraft.client.arguments import whole_number
from pykraft.recipes.key_value_commands import OPERATIONS_MAX, Condition, Put, prefix
from pykraft.recipes.key_value_store import KeyValueStore

_WAITS: Final = "waits"


class Barrier:
    """A barrier by its name, for this many ``parties``."""

    def __init__(self, store: KeyValueStore, name: str, parties: int, *, ttl_ms: int = 10_000) -> None:
        """Every party gives the same number. Errors: UsageError."""
        self._store = store
        self._prefix = f"{name}/"
        self._parties = whole_number("parties", parties, least=1, most=OPERATIONS_MAX)
        self._ttl_ms = ttl_ms

    async def wait(self) -> int:
        """Wait until all parties wait; returns the place of this one, from 0 on. Cancelled, it no longer counts.

        Errors: LeaseLostError, and those of the store.
        """
        async with self._store.lease(self._ttl_ms) as lease:
            # 1. The key has the number of its revision.
            arrived = (await self._store.transact([Put(self._prefix, _WAITS, lease, numbered=True)])).revision
            own = f"{self._prefix}{arrived:016d}"
            async with aclosing(self._store.watch(*prefix(self._prefix), from_revision=arrived)) as changes:
                async for change in changes:
                    if change.key == own and change.item is not None and change.item.value != _WAITS:
                        # 3. This one goes on.
                        return int(change.item.value)
                    if change.item is not None and change.item.value == _WAITS:
                        await self._open()
        raise AssertionError("a watch is endless")

    async def _open(self) -> None:
        items = await self._store.range(*prefix(self._prefix))
        first = [item for item in items if item.value == _WAITS][: self._parties]
        if len(first) == self._parties:
            # 2. If another one has done so, or one is gone, nothing happens.
            marks = [Put(item.key, str(place), item.lease) for place, item in enumerate(first)]
            await self._store.transact(marks, [Condition(item.key, "version", "==", 1) for item in first])
