"""A queue of jobs: each is done by one worker, and given to another one if that worker dies or fails.

How it works, on a `KeyValueStore`:

1. A job is a numbered key, so jobs are in the order in which they were put.
2. A worker takes the first job that nobody holds: it puts a claim with its lease, if there is none yet.
3. Done: the job and its claim are deleted in one transaction, if the claim is still the worker's.
4. If the worker fails or its lease ends, the claim is deleted, and the job is free again.

So a job is done at least once, and its end is in the store once. A worker that must not repeat an effect writes it in
the transaction that ends the job: see `TakenJob.done`.

Source: ours (ADR 087).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass

from pykraft.errors import CompactedError, LeaseLostError
from pykraft.recipes.key_value_commands import Condition, Delete, Item, Put, StoreOperation, prefix
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
