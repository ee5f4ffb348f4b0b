"""A lock for clients that cannot keep a block open: whoever has the lease has the place in the queue, and the lock.

The keys are those of `pykraft.recipes.lock`, so that programs and clients of the service wait for each other.

1. A lease without a key of this lock puts a numbered one. It asks again with the same lease to go on waiting, on any
   node, also when it does not know whether an earlier request put the key.
2. If an unanswered request left a second key, the lowest of the lease counts, and the lease never waits for itself.
3. The lease with the lowest key of all holds the lock. Its key's revision is the token, as in the recipe.

Invariant: two leases never hold one lock, and a later holder has a higher token.

Source: ours (ADR 090).
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass

from pykraft.errors import CommandRejectedError, UsageError
from pykraft.recipes import Condition, Delete, Item, KeyValueStore, Put
from pykraft.recipes.key_value_commands import OPERATIONS_MAX
from pykraft.recipes.lock import candidates, wait_deleted

QUEUE_MAX = 10_000
"""Candidates of one lock."""


@dataclass(frozen=True, slots=True)
class LockPlace:
    """A place in the queue of a lock: how many are ahead, 0 for the holder; the token is worth something only then."""

    key: str
    token: int
    ahead: int


async def acquire(store: KeyValueStore, name: str, *, lease: int, holder: str, wait_s: float) -> LockPlace:
    """Wait this long for the lock; returns the place in its queue, which stays as long as the lease.

    Errors: CommandRejectedError when the lease has ended; those of the store.
    """
    queue = await _queue(store, name)
    if not any(item.lease == lease for item in queue):
        # 1. Whoever has the lease comes back for the same key.
        if len(queue) >= QUEUE_MAX:
            raise CommandRejectedError(f"{QUEUE_MAX} candidates wait for this lock")
        await store.transact([Put(f"{name}/", holder, lease, numbered=True)])
        queue = await _queue(store, name)
    place = _place(queue, lease)
    with suppress(TimeoutError):
        async with asyncio.timeout(wait_s):
            while place.ahead:
                await wait_deleted(store, queue[place.ahead - 1])
                queue = await _queue(store, name)
                place = _place(queue, lease)
    return place


async def release(store: KeyValueStore, name: str, *, lease: int) -> bool:
    """Give the lock, or the place in its queue, up; the lease lives on. False if there was none."""
    own = [item for item in await _queue(store, name) if item.lease == lease][:OPERATIONS_MAX]
    if not own:
        return False
    same = [Condition(item.key, "created", "==", item.created) for item in own]
    return (await store.transact([Delete(item.key) for item in own], same)).succeeded


async def _queue(store: KeyValueStore, name: str) -> list[Item]:
    """The candidates, the holder first."""
    if not name:
        raise UsageError("name: a lock has a name of at least one character")
    return await candidates(store, name)


def _place(queue: list[Item], lease: int) -> LockPlace:
    """Errors: CommandRejectedError when the lease has no place any more."""
    for ahead, item in enumerate(queue):
        if item.lease == lease:
            # 2. Of several keys the lowest. 3. It is the holder's if it is the lowest of all.
            return LockPlace(item.key, item.created, ahead)
    raise CommandRejectedError(f"lease {lease} has ended, or never was")
