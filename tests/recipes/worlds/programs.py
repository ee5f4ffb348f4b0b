"""What the processes of a world do with the recipes: each function is one run of a program, which may end in an error.

Invariant: a program tells the workload what it holds, for as long as it believes to hold it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from pykraft import recipes
from pykraft.errors import CompactedError, NotAppliedError
from pykraft.machine.testing.workload import ProcessSeat
from pykraft.recipes.key_space import is_in
from pykraft.recipes.key_value_commands import ComparisonOperator, StoreOperation
from pykraft.sim.invariants.violation import ViolationError
from tests.recipes.worlds.holdings import Holdings
from tests.recipes.worlds.log_rules import ATTEMPTS, LOCKS, PARTIES, LogRules
from tests.recipes.worlds.model import StoreModel

TTL_MS: Final = 1_000
HELD_MS_MAX: Final = 700
WAIT_S: Final = 1.5
CHANGES_WATCHED: Final = 25
OPERATORS: Final[tuple[ComparisonOperator, ...]] = ("<", ">")


@dataclass(slots=True)
class WatchStory:
    """What one watch of a range was to give, and gave."""

    key: str
    end: str | None
    from_revision: int
    seen: list[recipes.KeyChange] = field(default_factory=list)
    compacted: CompactedError | None = None


@dataclass(slots=True)
class Stories:
    """What the programs of a world did."""

    rules: LogRules
    holdings: Holdings
    now_us: Callable[[], int]
    watches: list[WatchStory] = field(default_factory=list)
    jobs: list[int] = field(default_factory=list)
    """Jobs whose putting was acknowledged."""
    names: int = 0

    def new_name(self) -> str:
        """A name that no other program has."""
        self.names += 1
        return f"program {self.names}"


Program: TypeAlias = Callable[[recipes.KeyValueStore, ProcessSeat, Stories], Awaitable[None]]


async def change(store: recipes.KeyValueStore, seat: ProcessSeat, stories: Stories) -> None:
    """Plain calls of the store."""
    del stories
    random = seat.random
    key = "k/" + random.choice("abcd")
    match random.randrange(8):
        case 0:
            await store.delete(key)
        case 1:
            item = await store.get(key)
            await store.compare_and_set(key, None if item is None else item.value, str(random.randrange(9)))
        case 2:
            await store.compact(max(1, await store.revision() - random.randrange(-1, 12)))
        case 3:
            await store.range(*recipes.prefix(""), limit=3)
        case 4 | 5:
            operations: list[StoreOperation] = [
                recipes.Put("k/" + random.choice("abcd"), "1"),
                recipes.Delete("k/c", "k/e"),
                recipes.Get("k/a", "k/d", 2),
                recipes.Put("k/n", "", numbered=True),
                recipes.Put("k/" + random.choice("ef"), "2"),
                recipes.Delete("k/n", "k/o"),
            ]
            random.shuffle(operations)
            conditions = [recipes.Condition(key, "version", random.choice(OPERATORS), random.randrange(4))]
            await store.transact(operations[:4], conditions, operations[4:])
        case _:
            await store.put(key, str(random.randrange(9)))


async def hold_lease(store: recipes.KeyValueStore, seat: ProcessSeat, stories: Stories) -> None:
    """Put a key with a lease, and hold it for a while."""
    asked_us = stories.now_us()
    async with store.lease(TTL_MS) as lease:
        with stories.holdings.held(f"lease {lease}", seat, asked_us, lambda model: lease in model.leases):
            await store.put(f"alive/{seat.random.randrange(3)}", "", lease=lease)
            await seat.pause(2 * HELD_MS_MAX)
    # It has ended, so nothing of this may be in the store.
    await store.transact([recipes.Put("late", str(lease)), recipes.Put("alive/late", "", lease)])


async def watch(store: recipes.KeyValueStore, seat: ProcessSeat, stories: Stories) -> None:
    """Watch some changes, from a revision that may be long gone."""
    last = await store.revision()
    key, end = seat.random.choice([recipes.prefix(""), ("k/a", None), ("k/a", "k/n"), recipes.prefix(LOCKS[0])])
    story = WatchStory(key, end, max(1, last + 1 - seat.random.choice((0, 0, 3, 10, 40))))
    await watch_for_a_while(store, seat, stories, story)
    if story.compacted is not None:  # as its error says, from the first revision that is left
        await watch_for_a_while(store, seat, stories, WatchStory(key, end, story.compacted.oldest_revision))


async def watch_for_a_while(
    store: recipes.KeyValueStore, seat: ProcessSeat, stories: Stories, story: WatchStory
) -> None:
    """Note what a watch gives, at a pace of its own; one that is slow enough hears that it is too slow."""
    key, end = story.key, story.end
    stories.watches.append(story)
    checking = asyncio.ensure_future(check_watch(store, seat, story))
    try:
        async with (
            asyncio.timeout(WAIT_S),
            aclosing(store.watch(key, end, from_revision=story.from_revision)) as changes,
        ):
            async for one in changes:
                story.seen.append(one)
                if len(story.seen) == CHANGES_WATCHED:
                    return
                if seat.random.random() < 0.2:
                    await seat.pause()
    except CompactedError as error:
        story.compacted = error
    except TimeoutError:
        return
    finally:
        checking.cancel()
        with suppress(asyncio.CancelledError):
            await checking  # what it found is a finding


async def check_watch(store: recipes.KeyValueStore, seat: ProcessSeat, story: WatchStory) -> None:
    """A watch gives what its node knows, soon after."""
    while True:
        known, seen = store.machine.space.revision, len(story.seen)
        for _ in range(10):  # many turns of the loop, however long the process stands still meanwhile
            await seat.pause()
        if story.compacted is None and 0 < seen == len(story.seen) < CHANGES_WATCHED:
            due = [one for one in kept_changes(store, story) if story.seen[-1].revision < one.revision <= known]
            if due:
                told = f"node {seat.machine.node_id} knows revision {known}, and a watch has not got {due[0]}"
                raise ViolationError("WatchesAreInTime", told)


def kept_changes(store: recipes.KeyValueStore, story: WatchStory) -> list[recipes.KeyChange]:
    """The changes of a watch's range that its node keeps."""
    return [one for one in store.machine.space.kept if is_in(one.key, story.key, story.end)]


async def hold_lock(store: recipes.KeyValueStore, seat: ProcessSeat, stories: Stories) -> None:
    """Hold the lock, and write with its token."""
    asked_us = stories.now_us()
    async with recipes.lock(store, "lock", ttl_ms=TTL_MS, holder=stories.new_name()) as held:
        stories.holdings.token("lock", held.token, seat, asked_us)
        with stories.holdings.held("lock", seat, asked_us, lambda model: held.key in model.items):
            await seat.pause(HELD_MS_MAX)
            await store.transact([recipes.Put("fenced", str(held.token))], [held.condition])
            await seat.pause()


async def lead(store: recipes.KeyValueStore, seat: ProcessSeat, stories: Stories) -> None:
    """Be the leader for a while."""
    asked_us = stories.now_us()
    async with recipes.leadership(store, "chief", stories.new_name(), ttl_ms=TTL_MS) as held:
        stories.holdings.token("chief", held.token, seat, asked_us)
        with stories.holdings.held("chief", seat, asked_us, lambda model: held.key in model.items):
            await seat.pause(HELD_MS_MAX)


async def follow_leaders(store: recipes.KeyValueStore, seat: ProcessSeat, stories: Stories) -> None:
    """Hear who leads; whoever is named led at some time since the question."""
    begun_us = stories.now_us()
    try:
        async with asyncio.timeout(WAIT_S), aclosing(recipes.leaders(store, "chief")) as names:
            async for name in names:
                known = stories.rules.holders[LOCKS[1]]
                ends = [at_us for at_us, _ in known[1:]] + [stories.now_us() + 1]
                if not any(
                    name == holder and end_us > begun_us for (_, holder), end_us in zip(known, ends, strict=True)
                ):
                    raise ViolationError(
                        "LeadersLead", f"node {seat.machine.node_id} heard of {name}, who does not lead"
                    )
                begun_us = stories.now_us()
    except TimeoutError:
        return


async def put_job(store: recipes.KeyValueStore, seat: ProcessSeat, stories: Stories) -> None:
    """Put a job."""
    stories.jobs.append(await recipes.JobQueue(store, "mail", ttl_ms=TTL_MS).put(stories.new_name()))
    await seat.pause(4 * HELD_MS_MAX // 3)


async def work(store: recipes.KeyValueStore, seat: ProcessSeat, stories: Stories) -> None:
    """Take a job and end it; or fail, so that another worker gets it, or nobody after so many attempts."""
    asked_us = stories.now_us()
    retry_ms = seat.random.choice((0, 0, 1_000))
    queue = recipes.JobQueue(store, "mail", ttl_ms=TTL_MS, attempts=ATTEMPTS, retry_ms=retry_ms)
    async with asyncio.timeout(2 * WAIT_S) as waits, queue.take() as job:
        waits.reschedule(None)
        name = stories.new_name()
        stories.rules.workers[job.token, job.number] = name
        claim, token = job.condition.key, job.token
        stories.holdings.token(f"job {job.number}", token, seat, asked_us)

        def has_claim(model: StoreModel) -> bool:
            return claim in model.items and model.items[claim].created == token

        with stories.holdings.held(f"job {job.number}", seat, asked_us, has_claim):
            await seat.pause(HELD_MS_MAX)
            if seat.random.random() < 0.4:
                raise NotAppliedError("the worker fails")
        await job.done([recipes.Put(f"ended/{job.number}", name)])


async def try_to_hold(store: recipes.KeyValueStore, seat: ProcessSeat, stories: Stories) -> None:
    """Hold the lock if it is free."""
    asked_us = stories.now_us()
    async with recipes.try_lock(store, "lock", ttl_ms=TTL_MS, holder=stories.new_name()) as held:
        if held is not None:
            stories.holdings.token("lock", held.token, seat, asked_us)
            with stories.holdings.held("lock", seat, asked_us, lambda model: held.key in model.items):
                await seat.pause(HELD_MS_MAX)
                await store.transact([recipes.Put("fenced", str(held.token))], [held.condition])


async def meet(store: recipes.KeyValueStore, seat: ProcessSeat, stories: Stories) -> None:
    """Wait for another party, or leave when it may just be coming."""
    del stories
    async with asyncio.timeout(seat.random.uniform(0, WAIT_S)):
        await recipes.Barrier(store, "start", PARTIES, ttl_ms=TTL_MS).wait()
    await seat.pause()


PROGRAMS: Final[tuple[Program, ...]] = (
    hold_lease,
    watch,
    watch,
    hold_lock,
    hold_lock,
    try_to_hold,
    lead,
    follow_leaders,
    put_job,
    work,
    work,
    meet,
)
"""A process has some of these, beside `change`."""
