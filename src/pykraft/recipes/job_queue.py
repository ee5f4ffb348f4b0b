"""A queue of jobs on a `KeyValueStore`: each job is done by one worker, and by another one if that dies or fails.

1. A job is a numbered key, so jobs are in the order in which they were put.
2. The workers of a node wait at one desk. It finds the jobs that nobody has claimed and claims them for the workers
   that wait, several in one transaction: it puts a claim with the node's lease for each, and counts the attempt.
3. Done: the job, its claim and its count are deleted in one transaction, if the claim is still the worker's.
4. If the worker fails, its claim gets a lease that nobody keeps: when that ends, the job is free again. If the worker
   dies, its claim ends with its node's lease.
5. A job whose attempts are used up becomes a dead letter: a key that no worker looks at.

So a job is done at least once, and its end is in the store once. A worker that must not repeat an effect writes it in
the transaction that ends the job: see `TakenJob.done`.

Source: ours (ADR 087, ADR 182).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Final

from pykraft.client.arguments import whole_number
from pykraft.client.proposals import twin
from pykraft.errors import CompactedError, LeaseLostError, OutcomeUnknownError, PykraftError
from pykraft.recipes.coordination import namespace
from pykraft.recipes.key_value_commands import (
    LEASE_TTL_MS_MAX,
    LEASE_TTL_MS_MIN,
    Condition,
    Delete,
    Item,
    KeyChange,
    Put,
    StoreOperation,
    numbered_key,
    prefix,
)
from pykraft.recipes.key_value_store import KeyValueStore, NodeLease

CLAIMED_MAX: Final = 32
"""Jobs that one transaction claims."""
IDLE_S: Final = 60.0
"""A desk at which nobody waits closes after this time."""


@dataclass(slots=True)
class TakenJob:
    """A job that this worker holds: ``attempt`` counts from 1, and ``token`` is higher each time the job is taken.

    A resource outside of the store keeps the highest token of a job that it has seen, and refuses lower ones.
    """

    value: str
    number: int
    token: int
    attempt: int
    _store: KeyValueStore
    _space: str
    _is_done: bool = False

    async def done(self, effects: Sequence[StoreOperation] = ()) -> None:
        """End the job, together with these operations: all of it, or nothing with LeaseLostError."""
        # 3. Only while the claim is ours.
        result = await self._store.transact([*self._end, *effects], [self.condition])
        if not result.succeeded:
            raise LeaseLostError(f"job {self.number} was given to another worker")
        self._is_done = True

    @property
    def condition(self) -> Condition:
        """For transactions: this worker still has the job."""
        return Condition(_key(self._space, "claim", self.number), "created", "==", self.token)

    @property
    def _end(self) -> list[StoreOperation]:
        return [Delete(_key(self._space, kind, self.number)) for kind in ("job", "claim", "tries")]

    async def _return(self, attempts: int, retry_ms: int) -> None:
        """4. and 5. The worker failed."""
        claim = _key(self._space, "claim", self.number)
        if self.attempt >= attempts:
            then = [*self._end, Put(_key(self._space, "buried", self.number), self.value)]
        elif retry_ms:
            wait_ms = min(retry_ms << (self.attempt - 1), LEASE_TTL_MS_MAX)
            then = [Put(claim, "", await self._store.grant_lease(wait_ms))]
        else:
            then = [Delete(claim)]
        await self._store.transact(then, [self.condition])


class JobQueue:
    """A queue by its name; ``ttl_ms`` is how long a job of a dead worker waits for another one.

    A job that failed waits for ``retry_ms``, twice as long each time, or not at all with 0; after so many ``attempts``
    it becomes a dead letter. A worker that died has tried, too.
    """

    def __init__(
        self, store: KeyValueStore, name: str, *, ttl_ms: int = 10_000, attempts: int = 10, retry_ms: int = 1_000
    ) -> None:
        """Errors: UsageError."""
        self._store = store
        self._space = namespace("queue", name)
        self._ttl_ms = ttl_ms
        self._attempts = whole_number("attempts", attempts, least=1)
        least, name = (LEASE_TTL_MS_MIN, "retry_ms, if it is not 0,") if retry_ms else (0, "retry_ms")
        self._retry_ms = whole_number(name, retry_ms, least=least, most=LEASE_TTL_MS_MAX)

    async def put(self, value: str) -> int:
        """Add a job; returns its number. Errors: those of `KeyValueStore.put`."""
        return (await self._store.transact([self.put_operation(value)])).revision

    def put_operation(self, value: str) -> Put:
        """What adds a job, for a transaction: its number is the revision of that, so only one at a time."""
        # 1. The number is the revision.
        return Put(f"{self._space}job/", value, numbered=True)

    async def count(self) -> int:
        """Jobs that are not done, whether or not somebody works on them; without the dead letters."""
        return await self._store.count(*prefix(f"{self._space}job/"))

    async def dead_letters(self, limit: int = 1_000) -> dict[int, str]:
        """The first of the jobs that failed too often, by their numbers."""
        found = await self._store.range(*prefix(f"{self._space}buried/"), limit=limit)
        return {_number(item.key): item.value for item in found}

    async def revive(self, number: int) -> bool:
        """Make a dead letter a new job, at the end of the queue. False if there is none with this number."""
        key = _key(self._space, "buried", number)
        item = await self._store.get(key)
        if item is None:
            return False
        same = [Condition(key, "created", "==", item.created)]
        return (await self._store.transact([Delete(key), self.put_operation(item.value)], same)).succeeded

    async def discard(self, number: int) -> bool:
        """Delete a dead letter. False if there is none with this number."""
        return await self._store.delete(_key(self._space, "buried", number)) > 0

    @asynccontextmanager
    async def take(self) -> AsyncIterator[TakenJob]:
        """Wait for a job and hold it in this block. The job ends with the block, and comes again if the block raises.

        Errors: LeaseLostError: another worker may have the job; and those of the store.
        """
        async with self._store.hold(self._ttl_ms) as held:
            job = await self._desk().take(held, self._attempts)
            is_failed = False
            try:
                yield job
                if not job._is_done:  # noqa: SLF001 - a class of this module
                    await job.done()
            except Exception:
                is_failed = True
                raise
            finally:
                if not job._is_done:  # noqa: SLF001 - as above
                    retry_ms = self._retry_ms if is_failed else 0
                    await held.give_up(lambda: job._return(self._attempts, retry_ms))  # noqa: SLF001 - as above

    def _desk(self) -> _Desk:
        shared = self._store.machine.shared
        known = shared.get((_Desk, self._space))
        if not isinstance(known, _Desk):
            known = shared[_Desk, self._space] = _Desk(self._store, self._space)
        return known


def _key(space: str, kind: str, number: int) -> str:
    return numbered_key(f"{space}{kind}/", number)


def _number(key: str) -> int:
    return int(key.rpartition("/")[2])


@dataclass(frozen=True, slots=True, eq=False)
class _Worker:
    """A worker that waits for a job, and after how many attempts that is buried."""

    held: NodeLease
    attempts: int
    job: asyncio.Future[TakenJob]


@dataclass(frozen=True, slots=True)
class _FreeJob:
    """A job that nobody has claimed, as far as this node knows."""

    number: int
    item: Item
    tries: Item | None

    @property
    def attempt(self) -> int:
        """The number of the next one."""
        return 1 if self.tries is None else int(self.tries.value) + 1


class _Desk:
    """Where all workers of a node wait for the jobs of one queue."""

    def __init__(self, store: KeyValueStore, space: str) -> None:
        self._store = store
        self._space = space
        self._workers: deque[_Worker] = deque()
        self._next = 0
        """Jobs below this number were looked at; of these, the ones that may be free again are in ``_again``."""
        self._again: list[int] = []
        self._watching = asyncio.get_running_loop().create_task(self._watch(), name="pykraft job queue")
        self._claiming: asyncio.Task[None] | None = None
        self._has_news = False
        """Whether a worker came, or a job may be free, since the last look."""

    async def take(self, held: NodeLease, attempts: int) -> TakenJob:
        """Wait for a job. Errors: those of the store."""
        worker = _Worker(held, attempts, asyncio.get_running_loop().create_future())
        self._workers.append(worker)
        self._poll()
        try:
            return await worker.job
        except asyncio.CancelledError:
            # It may have been cancelled in the moment in which it got a job.
            if not worker.job.cancel() and not worker.job.cancelled() and worker.job.exception() is None:
                await held.give_up(self._leaving(worker.job.result()))
            raise

    def _poll(self) -> None:
        """Claim jobs if any may be free, and if anybody waits."""
        self._has_news = True
        if self._claiming is None and self._workers:
            self._claiming = asyncio.get_running_loop().create_task(self._claim_all(), name="pykraft job claims")
            self._claiming.add_done_callback(self._claimed)

    def _claimed(self, claiming: asyncio.Task[None]) -> None:
        self._claiming = None
        if not claiming.cancelled():
            claiming.result()
            if self._has_news:
                self._poll()

    async def _watch(self) -> None:
        begin, end = f"{self._space}claim/", prefix(f"{self._space}job/")[1]
        try:
            while True:
                revision = await self._store.revision()
                self._next, self._again = 0, []
                self._poll()
                with suppress(CompactedError):
                    async with aclosing(self._store.watch(begin, end, from_revision=revision + 1)) as changes:
                        await self._follow(changes)
                if not self._workers and self._claiming is None:
                    return
        except PykraftError as error:
            while self._workers:
                _fail(self._workers.popleft(), error)
        finally:
            self._store.machine.shared.pop((_Desk, self._space), None)

    async def _follow(self, changes: AsyncGenerator[KeyChange, None]) -> None:
        """Hear which jobs are free again, and of new ones, until nothing happens for a while."""
        with suppress(TimeoutError):
            while True:
                async with asyncio.timeout(IDLE_S):
                    change = await anext(changes)
                number = _number(change.key)
                if change.item is None and number < self._next:
                    heappush(self._again, number)
                self._poll()

    def _pick(self) -> _FreeJob | None:
        """The first job that is free, as this node knows it; the transaction looks again."""
        space = self._store.machine.space
        while True:
            if self._again:
                number = heappop(self._again)
            else:
                end = prefix(f"{self._space}job/")[1]
                key = next(space.keys_in(_key(self._space, "job", self._next), end), None)
                if key is None:
                    return None
                number = _number(key)
                self._next = number + 1
            item = space.get(_key(self._space, "job", number))
            if item is not None and space.get(_key(self._space, "claim", number)) is None:
                return _FreeJob(number, item, space.get(_key(self._space, "tries", number)))

    async def _claim_all(self) -> None:
        while True:
            self._has_news = False
            self._workers = deque(worker for worker in self._workers if not worker.job.done())
            picked: dict[int, _FreeJob] = {}
            while len(picked) < min(CLAIMED_MAX, len(self._workers)) and (job := self._pick()) is not None:
                picked[job.number] = job
            # The workers of a queue have the same limit, unless the program means something else by the name.
            buried = [job for job in picked.values() if job.attempt > self._workers[0].attempts]
            for job in buried:
                del picked[job.number]
            can_go_on = await self._bury(buried) and bool(picked or buried)
            pairs: list[tuple[_Worker, _FreeJob]] = []
            for job in picked.values():
                if can_go_on and self._workers:
                    pairs.append((self._workers.popleft(), job))
                else:
                    heappush(self._again, job.number)
            if pairs:
                await self._claim(pairs)
            if not can_go_on:
                return

    async def _bury(self, jobs: Sequence[_FreeJob]) -> bool:
        """5. Their workers died in the last attempt. False if the store cannot do that now."""
        for job in jobs:
            ends = [Delete(_key(self._space, kind, job.number)) for kind in ("job", "tries")]
            grave = Put(_key(self._space, "buried", job.number), job.item.value)
            try:
                await self._store.transact([*ends, grave], self._is_free(job))
            except PykraftError:
                heappush(self._again, job.number)
                return False
        return True

    async def _claim(self, pairs: Sequence[tuple[_Worker, _FreeJob]]) -> None:
        """2. All these jobs in one transaction."""
        names = [worker.held.new_name() for worker, _ in pairs]
        puts = [
            put
            for (worker, job), name in zip(pairs, names, strict=True)
            for put in (
                Put(_key(self._space, "claim", job.number), name, worker.held.lease),
                Put(_key(self._space, "tries", job.number), str(job.attempt)),
            )
        ]
        try:
            result = await self._store.transact(puts, [one for _, job in pairs for one in self._is_free(job)])
        except PykraftError as error:
            for (worker, job), name in zip(pairs, names, strict=True):
                heappush(self._again, job.number)
                if isinstance(error, OutcomeUnknownError):
                    worker.held.release(self._doubted(job, name))
                _fail(worker, error)
            return
        if not result.succeeded:
            # Another node was faster with one of them.
            self._workers.extendleft(worker for worker, _ in reversed(pairs))
            for _, job in pairs:
                heappush(self._again, job.number)
            return
        for worker, job in pairs:
            taken = TakenJob(job.item.value, job.number, result.revision, job.attempt, self._store, self._space)
            if worker.job.done():
                worker.held.release(self._leaving(taken))
            else:
                worker.job.set_result(taken)

    def _is_free(self, job: _FreeJob) -> list[Condition]:
        tries = 0 if job.tries is None else job.tries.version
        return [
            Condition(job.item.key, "created", "==", job.item.created),
            Condition(_key(self._space, "claim", job.number), "version", "==", 0),
            Condition(_key(self._space, "tries", job.number), "version", "==", tries),
        ]

    def _leaving(self, job: TakenJob) -> Callable[[], Awaitable[object]]:
        """Gives a job back on which nobody worked."""
        tries = Put(_key(self._space, "tries", job.number), str(job.attempt - 1))
        claim = Delete(_key(self._space, "claim", job.number))
        return lambda: self._store.transact([claim, tries], [job.condition])

    def _doubted(self, job: _FreeJob, name: str) -> Callable[[], Awaitable[object]]:
        """Ends a claim that may be in the store, or may yet come."""
        claim = _key(self._space, "claim", job.number)
        tries = Put(_key(self._space, "tries", job.number), str(job.attempt - 1))

        async def end() -> None:
            await self._store.transact([Delete(claim), tries], [Condition(claim, "value", "==", name)])
            # It cannot come any more when the count has another version.
            await self._store.transact([tries], self._is_free(job))

        return end


def _fail(worker: _Worker, error: PykraftError) -> None:
    if not worker.job.done():
        worker.job.set_exception(twin(error))
        worker.job.exception()  # it may be gone
