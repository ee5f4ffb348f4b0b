"""Locks, elections and barriers on a `KeyValueStore`. Each is short and complete: use it, or copy it.

A lock has one holder at a time, in the order of arrival:

1. Each candidate puts a numbered key with the lease of its node, and a second one with a name of its own, by which it
   finds the first one again if it does not hear the number. The lowest number holds the lock.
2. Everybody else watches the key just below its own until that is deleted, then looks again.
3. The holder's keys are deleted when its block ends, or with the lease. It has given up by then.

The token is the revision of the holder's key, so that of a later holder is always higher. A resource outside of the
store should refuse a token lower than the highest that it has seen: a holder may be stopped and go on after its lease
has ended. A transaction of the store does the same with `HeldLock.condition`. An election is a lock whose holder says
who it is; its leader has nothing to do with the leader of the quorum.

At a barrier programs wait for each other:

1. Whoever arrives puts a numbered key in the same way, so that the dead do not count.
2. The last of those that are enough marks the keys of all of them, in one transaction, if they are still there.
3. Whoever sees its own key marked goes on, with its place among them.

Each recipe has keys of its own, under ``pykraft/``, its kind and its name (`namespace`).

Source: ours (ADR 087, ADR 182); the lock is that of ZooKeeper and etcd.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final

from pykraft.client.arguments import whole_number
from pykraft.errors import CompactedError, OutcomeUnknownError
from pykraft.recipes.key_value_commands import OPERATIONS_MAX, Condition, Delete, Get, Item, Put, numbered_key
from pykraft.recipes.key_value_store import KeyValueStore

AFTER_DIGITS: Final = ":"
"""The character after the digits: where the numbered keys of a namespace end."""
MARK_MS: Final = 300_000
"""A command whose outcome is unknown does not come later than this: no node tries for longer than half a minute."""


def namespace(kind: str, name: str) -> str:
    """What the keys of a recipe begin with; no name makes one that begins with another's."""
    return f"pykraft/{kind}/{name.replace('%', '%25').replace('/', '%2F')}/"


@asynccontextmanager
async def numbered(store: KeyValueStore, space: str, value: str, ttl_ms: int) -> AsyncIterator[Item]:
    """A new numbered key in this block, under the lease of this node. Errors: LeaseLostError; those of the store."""
    async with store.hold(ttl_ms) as held:
        own = f"{space}own/{held.new_name()}"
        is_new = [Condition(own, "version", "==", 0)]

        async def leave() -> None:
            # Either the first transaction is in the store, or this one is, and then the first one never will be.
            mark = Put(own, "gone", await store.grant_lease(MARK_MS))
            result = await store.transact([mark], is_new, otherwise=[Get(own)])
            if not result.succeeded and (item := result.found[0][0]).value != "gone":
                await store.transact([Delete(numbered_key(space, item.created)), Delete(own)])

        try:
            puts = [Put(space, value, held.lease, numbered=True), Put(own, "", held.lease)]
            result = await store.transact(puts, is_new)
            assert result.succeeded, "the name is new"
        except (OutcomeUnknownError, asyncio.CancelledError):
            await held.give_up(leave)
            raise
        key = numbered_key(space, result.revision)
        try:
            yield Item(key, value, result.revision, result.revision, 1, held.lease)
        finally:
            await held.give_up(lambda: store.transact([Delete(key), Delete(own)]))


_WAITS: Final = "waits"


class Barrier:
    """A barrier by its name, for this many ``parties``."""

    def __init__(self, store: KeyValueStore, name: str, parties: int, *, ttl_ms: int = 10_000) -> None:
        """Every party gives the same number. Errors: UsageError."""
        self._store = store
        self._space = namespace("barrier", name)
        self._parties = whole_number("parties", parties, least=1, most=OPERATIONS_MAX)
        self._ttl_ms = ttl_ms

    async def wait(self) -> int:
        """Wait until all parties wait; returns the place of this one, from 0 on. Cancelled, it no longer counts.

        Errors: LeaseLostError, and those of the store.
        """
        end = self._space + AFTER_DIGITS
        # 1. The key has the number of its revision.
        async with (
            numbered(self._store, self._space, _WAITS, self._ttl_ms) as own,
            aclosing(self._store.watch(self._space, end, from_revision=own.created)) as changes,
        ):
            async for change in changes:
                if change.key == own.key and change.item is not None and change.item.value != _WAITS:
                    # 3. This one goes on.
                    return int(change.item.value)
                await self._open(own)
        raise AssertionError("a watch is endless")

    async def _open(self, own: Item) -> None:
        items = await self._store.range(self._space, self._space + AFTER_DIGITS, stale=True)
        first = [item for item in items if item.value == _WAITS][: self._parties]
        if len(first) == self._parties and first[-1].key == own.key:
            # 2. If one is gone meanwhile, nothing happens, and another one will be the last.
            marks = [Put(item.key, str(place), item.lease) for place, item in enumerate(first)]
            await self._store.transact(marks, [Condition(item.key, "version", "==", 1) for item in first])


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
    async with numbered(store, namespace("lock", name), holder, ttl_ms) as own:  # 1.
        # 2. Wait for whoever came before. This node knows all of them: nobody can come before them any more.
        while (before := await _before(store, name, own.key)) is not None:
            await wait_deleted(store, before)
        # 3. The key goes with the block.
        yield HeldLock(own.created, own.key)


@asynccontextmanager
async def try_lock(
    store: KeyValueStore, name: str, *, ttl_ms: int = 10_000, holder: str = ""
) -> AsyncIterator[HeldLock | None]:
    """Hold the lock in this block if it is free, and otherwise go on at once with None. Errors: as `lock`."""
    async with AsyncExitStack() as stack:
        held: HeldLock | None = None
        if await holder_of(store, name) is None:
            own = await stack.enter_async_context(numbered(store, namespace("lock", name), holder, ttl_ms))
            if await _before(store, name, own.key) is None:
                held = HeldLock(own.created, own.key)
            else:
                await stack.aclose()
        yield held


async def holder_of(store: KeyValueStore, name: str) -> Item | None:
    """The item of the holder: its ``value`` is what it called itself, its ``created`` the token; None while free."""
    space = namespace("lock", name)
    found = await store.range(space, space + AFTER_DIGITS, limit=1)
    return found[0] if found else None


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
    return await store.last(namespace("lock", name), key, stale=True)


def leadership(
    store: KeyValueStore, name: str, candidate: str, *, ttl_ms: int = 10_000
) -> AbstractAsyncContextManager[HeldLock]:
    """Wait until this candidate is elected, and lead in this block: see `pykraft.recipes.coordination`.

    ``token`` is the term: later leaders have higher ones. Errors: LeaseLostError when the leadership was lost.
    """
    return lock(store, name, ttl_ms=ttl_ms, holder=candidate)


async def leader_of(store: KeyValueStore, name: str) -> str | None:
    """Who leads now; None while nobody does."""
    found = await holder_of(store, name)
    return None if found is None else found.value


async def leaders(store: KeyValueStore, name: str) -> AsyncGenerator[str | None, None]:
    """Who leads, now and after each change; endless. Of changes that come at once only the last may be seen."""
    told: Item | None = None
    is_first = True
    while True:
        # The revision first: what changes after the look is then in the watch.
        revision = await store.revision()
        found = await holder_of(store, name)
        if is_first or found != told:
            told, is_first = found, False
            yield None if found is None else found.value
        with suppress(CompactedError):  # so much has changed: look again
            space = namespace("lock", name)
            async with aclosing(store.watch(space, space + AFTER_DIGITS, from_revision=revision + 1)) as changes:
                await anext(changes)
