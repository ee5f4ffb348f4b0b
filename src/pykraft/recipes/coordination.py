"""Locks, elections, barriers and queues on a `KeyValueStore`. Each is short and complete: use it, or copy it.

A lock has one holder at a time, in the order of arrival:

1. Each candidate puts a numbered key with a lease of its own. The lowest number holds the lock.
2. Everybody else watches the key just below its own until that is deleted, then looks again.
3. The holder's key is deleted when its block or its lease ends. It has given up by then.

The token is the revision of the holder's key, so that of a later holder is always higher. A resource outside of the
store should refuse a token lower than the highest that it has seen: a holder may be stopped and go on after its lease
has ended. A transaction of the store does the same with `HeldLock.condition`. An election is a lock whose holder says
who it is; its leader has nothing to do with the leader of the quorum.

At a barrier programs wait for each other:

1. Whoever arrives puts a numbered key with a lease of its own, so that the dead do not count.
2. Whoever sees enough of them marks the keys of the first ones, in one transaction, if all of them are still there.
3. Whoever sees its own key marked goes on, with its place among them.

A job of a queue is done by one worker, and given to another one if that worker dies or fails:

1. A job is a numbered key, so jobs are in the order in which they were put.
2. A worker takes the first job that nobody holds: it puts a claim with its lease, if there is none yet.
3. Done: the job and its claim are deleted in one transaction, if the claim is still the worker's.
4. If the worker fails or its lease ends, the claim is deleted, and the job is free again.

So a job is done at least once, and its end is in the store once. A worker that must not repeat an effect writes it in
the transaction that ends the job: see `TakenJob.done`.

Source: ours (ADR 087); the lock is that of ZooKeeper and etcd.
"""

import re
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final

from pykraft.client.arguments import whole_number
from pykraft.errors import CompactedError, LeaseLostError
from pykraft.recipes.key_value_commands import OPERATIONS_MAX, Condition, Delete, Item, Put, StoreOperation, prefix
from pykraft.recipes.key_value_store import KeyValueStore


@dataclass(slots=True)
class TakenJob:
    """A job that this worker holds; ``number`` is a fencing token for the job, the same each time it is taken."""

    value: str
    number: int
    _store: KeyValueStore
    _key: str
    _claim: str
    _lease: int
    _is_done: bool = False

    async def done(self, effects: Sequence[StoreOperation] = ()) -> None:
        """End the job, together with these operations: all of it, or nothing with LeaseLostError."""
        # 3. Only while the claim is ours.
        ours = [Condition(self._claim, "lease", "==", self._lease)]
        result = await self._store.transact([Delete(self._key), Delete(self._claim), *effects], ours)
        if not result.succeeded:
            raise LeaseLostError(f"job {self.number} was given to another worker")
        self._is_done = True


class JobQueue:
    """A queue by its name; ``ttl_ms`` is how long a job of a dead worker waits for another one."""

    def __init__(self, store: KeyValueStore, name: str, *, ttl_ms: int = 10_000) -> None:
        self._store = store
        self._name = name
        self._ttl_ms = ttl_ms

    async def put(self, value: str) -> int:
        """Add a job; returns its number. Errors: those of `KeyValueStore.put`."""
        # 1. The number is the revision.
        return (await self._store.transact([Put(f"{self._name}/jobs/", value, numbered=True)])).revision

    async def count(self) -> int:
        """Jobs that are not done, whether or not somebody works on them."""
        return len(await self._store.range(*prefix(f"{self._name}/jobs/"), limit=1_000_000))

    @asynccontextmanager
    async def take(self) -> AsyncIterator[TakenJob]:
        """Wait for a job and hold it in this block. The job ends with the block, and is free again if the block raises.

        Errors: LeaseLostError: another worker may have the job; and those of the store.
        """
        async with self._store.lease(self._ttl_ms) as lease:
            job = await self._take(lease)
            # 4. An exception ends the lease, and with it the claim.
            yield job
            if not job._is_done:  # noqa: SLF001 - a class of this module
                await job.done()

    async def _take(self, lease: int) -> TakenJob:
        while True:
            # The revision first: what becomes free after the look is then in the watch.
            revision = await self._store.revision()
            while (item := await self._first_free()) is not None:
                # 2. Another worker may be faster: look again.
                claim = f"{self._name}/taken/{item.created:016d}"
                free = [Condition(item.key, "created", "==", item.created), Condition(claim, "version", "==", 0)]
                if (await self._store.transact([Put(claim, "", lease)], free)).succeeded:
                    return TakenJob(item.value, item.created, self._store, item.key, claim, lease)
            with suppress(CompactedError):  # so much has changed: look again
                async with aclosing(self._store.watch(*prefix(f"{self._name}/"), from_revision=revision + 1)) as news:
                    await anext(news)

    async def _first_free(self) -> Item | None:
        claims = await self._store.range(*prefix(f"{self._name}/taken/"), limit=1_000_000)
        taken = {claim.key.rpartition("/")[2] for claim in claims}
        # One more than are taken: if any job is free, one of these is.
        jobs = await self._store.range(*prefix(f"{self._name}/jobs/"), limit=len(taken) + 1)
        return next((job for job in jobs if job.key.rpartition("/")[2] not in taken), None)


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
            async with aclosing(store.watch(*prefix(f"{name}/"), from_revision=revision + 1)) as changes:
                await anext(changes)
