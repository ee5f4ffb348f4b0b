"""A lock of the whole quorum: one holder at a time, in the order of arrival, with a number that only grows.

How it works, on a `KeyValueStore`:

1. Each candidate puts a numbered key with a lease of its own. The lowest number holds the lock.
2. Everybody else watches the key just below its own until that is deleted, then looks again.
3. The holder's key is deleted when its block or its lease ends. It has given up by then.

The token is the revision of the holder's key, so that of a later holder is always higher. A resource outside of the
store should refuse a token lower than the highest that it has seen: a holder may be stopped and go on after its lease
has ended. A transaction of the store does the same with `HeldLock.condition`.

Source: ours (ADR 087); the recipe is that of ZooKeeper and etcd.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final

from pykraft.errors import CompactedError
from pykraft.recipes.key_value_commands import Condition, Item, Put, prefix
from pykraft.recipes.key_value_store import KeyValueStore

READ_MAX: Final = 1_000_000
"""Keys that one look at the candidates reads."""
_NUMBER: Final = re.compile(r"\d{16}")


@dataclass(frozen=True, slots=True)
class HeldLock:
    """The lock is held with this fencing token."""

    token: int
    key: str

    @property
    def condition(self) -> Condition:
        """For transactions: the lock is still held."""
        return Condition(self.key, "created", "==", self.token)


@asynccontextmanager
async def lock(store: KeyValueStore, name: str, *, ttl_ms: int = 10_000, holder: str = "") -> AsyncIterator[HeldLock]:
    """Wait for the lock and hold it in this block; ``holder`` is a text for others to read.

    ``async with asyncio.timeout(5): async with lock(...)`` waits for five seconds at most, block included.

    Errors: LeaseLostError when the lock was lost: the block is cancelled before anybody else can hold it, unless this
    program did not run meanwhile; and those of the store.
    """
    async with store.lease(ttl_ms) as lease:
        # 1. The key has the number of its revision.
        token = (await store.transact([Put(f"{name}/", holder, lease, numbered=True)])).revision
        key = f"{name}/{token:016d}"
        # 2. Wait for whoever came before.
        while (before := await _before(store, name, key)) is not None:
            await wait_deleted(store, before)
        # 3. The lease ends with the block.
        yield HeldLock(token, key)


async def holder_of(store: KeyValueStore, name: str) -> Item | None:
    """The item of the holder: its ``value`` is what it called itself, its ``created`` the token; None while free."""
    found = await candidates(store, name)
    return found[0] if found else None


async def candidates(store: KeyValueStore, name: str, below: str | None = None) -> list[Item]:
    """The items of all that wait for a lock, the holder's first; of those before the key ``below``, if it is given."""
    begin, end = prefix(f"{name}/")
    found = await store.range(begin, below or end, limit=READ_MAX)
    # Locks whose names begin with this one and a slash have other keys.
    return [item for item in found if _NUMBER.fullmatch(item.key, len(begin))]


async def wait_deleted(store: KeyValueStore, item: Item) -> None:
    """Wait until this item is deleted; it may be already, and then the first change tells."""
    from_revision = item.modified + 1
    while True:
        with suppress(CompactedError):  # too late to tell from there: look now, and wait for what comes
            async with aclosing(store.watch(item.key, from_revision=from_revision)) as changes:
                async for change in changes:
                    if change.item is None:
                        return
        # The revision first: what changes after the look is then in the watch.
        from_revision = await store.revision() + 1
        found = await store.get(item.key)
        if found is None or found.created != item.created:
            return


async def _before(store: KeyValueStore, name: str, key: str) -> Item | None:
    earlier = await candidates(store, name, key)
    return earlier[-1] if earlier else None
