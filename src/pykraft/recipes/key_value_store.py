"""The key-value store of a program: what `KeyValues` does, as calls on any node of the quorum.

Reads are linearizable unless they are told to be stale; each change is applied once; a watch misses nothing or says so.
A call raises what `pykraft.machine.Replicated.execute` and ``read`` raise, which says whether a change was made.

Source: ours (ADR 087).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final

from pykraft import errors
from pykraft.client.arguments import INT64_MAX, whole_number
from pykraft.machine.replicated import Replicated
from pykraft.recipes import key_value_commands
from pykraft.recipes.key_values import KeyValues

WATCHES_MAX: Final = 10_000
"""Watches of one node at one time."""
HELD_SHARE: Final = 0.8
"""A holder gives its lease up after this share of its time without an answer: before any other clock can end it."""
KEEPS: Final = 3
"""How often a lease is kept in its held time."""
RETRIES: Final = 8
"""How often a holder whose try failed at once tries again in the time between two of them, until it gives up."""


BLOCKS_MAX: Final = 2_000
"""Blocks that share one lease: each has a few keys, and a lease has 10,000 at most."""


def _check_ttl(ttl_ms: int) -> None:
    most = key_value_commands.LEASE_TTL_MS_MAX
    whole_number("ttl_ms", ttl_ms, least=key_value_commands.LEASE_TTL_MS_MIN, most=most)


class NodeLease:
    """A lease that many blocks of one node share, see `KeyValueStore.hold`; ``lease`` is its id.

    It is kept while there are blocks, and a little longer, so that the next one need not open another. `expired`,
    `when` and `reschedule` are those of `asyncio.Timeout`: the limit of a lease that is held.
    """

    def __init__(self, store: KeyValueStore, ttl_ms: int) -> None:
        loop = asyncio.get_running_loop()
        self.lease = 0
        self._store = store
        self._ttl_ms = ttl_ms
        self._held_s = ttl_ms / 1_000 * HELD_SHARE
        self._limit_s = loop.time() + self._held_s
        self._opened: asyncio.Future[None] = loop.create_future()
        self._blocks: dict[asyncio.Timeout, None] = {}
        self._names = 0
        self._releases: set[asyncio.Task[None]] = set()
        self._keeper = loop.create_task(self._run(), name="pykraft lease of a node")

    @property
    def is_open(self) -> bool:
        """Whether another block may join: the lease will be kept in good time, and has room."""
        left_s = self._limit_s - asyncio.get_running_loop().time()
        return not self._keeper.done() and left_s > self._held_s / KEEPS and len(self._blocks) < BLOCKS_MAX

    def new_name(self) -> str:
        """A text that nobody else has."""
        self._names += 1
        return f"{self.lease}-{self._names}"

    @asynccontextmanager
    async def block(self) -> AsyncIterator[None]:
        """Hold the lease in this block. Errors: LeaseLostError; those of the store."""
        limit = asyncio.timeout_at(None)
        try:
            async with limit:
                self._blocks[limit] = None
                try:
                    await asyncio.shield(self._opened)
                    limit.reschedule(self._limit_s)
                    yield
                finally:
                    del self._blocks[limit]
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise errors.LeaseLostError(f"lease {self.lease} of {self._ttl_ms} ms could not be kept") from error

    async def give_up(self, act: Callable[[], Awaitable[object]]) -> None:
        """Let go of what a block held: ``act`` deletes its keys, and may be called again.

        If that takes long it goes on after this call, since others may keep the lease for ever. When the lease is lost,
        its keys go with it.
        """
        if (release := self.release(act)) is not None:
            await asyncio.wait([release], timeout=self._held_s)

    def release(self, act: Callable[[], Awaitable[object]]) -> asyncio.Task[None] | None:
        """As `give_up`, without waiting for it."""
        if self._limit_s <= asyncio.get_running_loop().time():
            return None
        release = asyncio.get_running_loop().create_task(self._release(act), name="pykraft release")
        self._releases.add(release)
        release.add_done_callback(self._releases.discard)
        return release

    async def _release(self, act: Callable[[], Awaitable[object]]) -> None:
        while self._limit_s > asyncio.get_running_loop().time():
            # What is rejected, or comes too late for this node, was held by a lease that has ended, or will.
            with suppress(errors.PykraftError):
                with suppress(errors.CommandRejectedError, errors.NotRunningError):
                    await act()
                return
            await asyncio.sleep(self._held_s / KEEPS / RETRIES)

    async def _run(self) -> None:
        try:
            self.lease = await self._store.grant_lease(self._ttl_ms)
        except errors.PykraftError as error:
            self._opened.set_exception(error)
            self._opened.exception()  # the blocks may be gone
            return
        self._opened.set_result(None)
        await self._store.keep_until(self.lease, self._held_s, self)
        is_lost, self._limit_s = self._limit_s <= asyncio.get_running_loop().time(), 0.0  # nobody joins any more
        if not is_lost:
            with suppress(errors.PykraftError):  # then it ends by itself
                await self._store.end_lease(self.lease)

    def expired(self) -> bool:
        """Whether nobody holds it any more."""
        return not self._blocks or self._limit_s <= asyncio.get_running_loop().time()

    def when(self) -> float:
        """The limit, by the loop's clock."""
        return self._limit_s

    def reschedule(self, when: float, /) -> None:
        """Move it, for all blocks."""
        self._limit_s = when
        for limit in self._blocks:
            if not limit.expired():
                limit.reschedule(when)


class KeyValueStore:
    """The store, by way of this node. See `Item` for what is known of a key, and `prefix` for ranges."""

    def __init__(self, node: Replicated[KeyValues], *, timeout_ms: int = 10_000) -> None:
        """``timeout_ms`` is how long each call tries."""
        self._node = node
        self._timeout_ms = timeout_ms

    @property
    def machine(self) -> KeyValues:
        """The store of this node, which may be out of date."""
        return self._node.machine

    async def get(
        self, key: str, *, revision: int | None = None, stale: bool = False, max_age_ms: int | None = None
    ) -> key_value_commands.Item | None:
        """The item of this key; None when there is none. For stale reads see `pykraft.machine.Replicated.read`.

        With ``revision`` as it was then. Errors: CompactedError when that is no longer kept.
        """
        key_value_commands.check_range(key)
        async with self._node.read(stale=stale, max_age_ms=max_age_ms, timeout_ms=self._timeout_ms) as state:
            return state.get(key, revision)

    async def range(
        self,
        key: str,
        end: str | None = None,
        *,
        limit: int = 1_000,
        revision: int | None = None,
        stale: bool = False,
        max_age_ms: int | None = None,
    ) -> list[key_value_commands.Item]:
        """Up to ``limit`` items of a range, in the order of their keys; with ``revision`` as in `get`."""
        key_value_commands.check_range(key, end)
        whole_number("limit", limit, least=1)
        async with self._node.read(stale=stale, max_age_ms=max_age_ms, timeout_ms=self._timeout_ms) as state:
            return state.range(key, end, limit, revision)

    async def last(
        self, key: str, end: str | None = None, *, stale: bool = False, max_age_ms: int | None = None
    ) -> key_value_commands.Item | None:
        """The last item of a range; None when it is empty."""
        key_value_commands.check_range(key, end)
        async with self._node.read(stale=stale, max_age_ms=max_age_ms, timeout_ms=self._timeout_ms) as state:
            return state.space.last(key, end)

    async def count(
        self, key: str, end: str | None = None, *, stale: bool = False, max_age_ms: int | None = None
    ) -> int:
        """How many keys a range has, in no time."""
        key_value_commands.check_range(key, end)
        async with self._node.read(stale=stale, max_age_ms=max_age_ms, timeout_ms=self._timeout_ms) as state:
            return state.space.count(key, end)

    async def revision(self) -> int:
        """The revision of the last change, linearizable: a watch from the next one misses nothing later."""
        async with self._node.read(timeout_ms=self._timeout_ms) as state:
            return state.space.revision

    async def put(self, key: str, value: str | bytes, *, lease: int = 0) -> int:
        """Set a key; returns the revision of the change."""
        put = key_value_commands.Put(key, key_value_commands.value_of(value), lease)
        return (await self.transact([put])).revision

    async def delete(self, key: str, end: str | None = None) -> int:
        """Delete a key or a range; returns how many keys there were."""
        return (await self.transact([key_value_commands.Delete(key, end)])).deleted

    async def swap(self, key: str, value: str | bytes, *, lease: int = 0) -> key_value_commands.Item | None:
        """Set a key; returns the item that it had before."""
        return await self._before(key, key_value_commands.Put(key, key_value_commands.value_of(value), lease))

    async def pop(self, key: str) -> key_value_commands.Item | None:
        """Delete a key; returns the item that it had."""
        return await self._before(key, key_value_commands.Delete(key))

    async def _before(self, key: str, operation: key_value_commands.StoreOperation) -> key_value_commands.Item | None:
        [items] = (await self.transact([operation, key_value_commands.Get(key)])).found
        return items[0] if items else None

    async def compare_and_set(
        self, key: str, expected: str | bytes | None, value: str | bytes, *, lease: int = 0
    ) -> bool:
        """Set a key if its value is the expected one, or if it does not exist and None is expected."""
        operand = None if expected is None else key_value_commands.value_of(expected)
        condition = key_value_commands.Condition(key, "value", "==", operand)
        put = key_value_commands.Put(key, key_value_commands.value_of(value), lease)
        return (await self.transact([put], [condition])).succeeded

    async def transact(
        self,
        then: Sequence[key_value_commands.StoreOperation],
        conditions: Sequence[key_value_commands.Condition] = (),
        otherwise: Sequence[key_value_commands.StoreOperation] = (),
    ) -> key_value_commands.TransactionResult:
        """If all conditions hold, carry out ``then``, and otherwise ``otherwise``: as one change."""
        command = key_value_commands.Transaction(tuple(then), tuple(conditions), tuple(otherwise))
        result = await self._node.execute(command, timeout_ms=self._timeout_ms)
        assert isinstance(result, key_value_commands.TransactionResult)
        return result

    async def compact(self, revision: int) -> None:
        """Forget the changes before this revision: no watch can begin there any more."""
        await self._node.execute(key_value_commands.Compact(revision), timeout_ms=self._timeout_ms)

    async def watch(
        self, key: str, end: str | None = None, *, from_revision: int | None = None
    ) -> AsyncGenerator[key_value_commands.KeyChange, None]:
        """All changes of a key or a range from a revision on, in their order, as this node hears of them; endless.

        By default it begins after what was changed before the call. To resume, pass the revision after that of the last
        change; changes of one revision come together. A caller that is slower than the changes costs nothing, until
        they are compacted.

        Errors: CompactedError names the oldest revision that is kept; UsageError for a revision that is yet to come;
        BufferFullError for too many watches; NotRunningError, also while it waits.
        """
        key_value_commands.check_range(key, end)
        machine = self._node.machine
        if len(machine.watches) >= WATCHES_MAX:
            raise errors.BufferFullError(f"{WATCHES_MAX} watches are open on this node: close one first")
        moved = asyncio.Event()
        watch = machine.watches.open(key, end, moved.set)
        ended = asyncio.ensure_future(self._node.node.wait_closed())
        ended.add_done_callback(lambda _: moved.set())
        try:
            revision = await self._first_revision(from_revision)
            while True:
                changes, revision = machine.space.changes(revision, key, end)
                for change in changes:
                    yield change
                if ended.done():
                    raise errors.NotRunningError("the node has ended")
                if revision > machine.space.revision:
                    moved.clear()
                    watch.wait()
                    await moved.wait()
                    # What lies between did not concern it, however much that was.
                    revision = max(revision, watch.from_revision or 0)
                else:
                    await asyncio.sleep(0)
        finally:
            machine.watches.close(watch)
            if not ended.cancel() and not ended.cancelled():
                ended.exception()  # whoever closes the node hears of its error

    async def grant_lease(self, ttl_ms: int) -> int:
        """Open a lease: keys that are put with it are deleted after this log time, unless it is kept. Its id."""
        lease = await self._node.execute(key_value_commands.GrantLease(ttl_ms), timeout_ms=self._timeout_ms)
        assert isinstance(lease, int)
        return lease

    async def keep_lease(self, lease: int, *, timeout_ms: int | None = None) -> None:
        """Let the lease live for its whole time again. Errors: CommandRejectedError when it has ended."""
        await self._node.execute(key_value_commands.KeepLease(lease), timeout_ms=timeout_ms or self._timeout_ms)

    async def end_lease(self, lease: int) -> None:
        """End the lease now, and delete its keys."""
        await self._node.execute(key_value_commands.EndLease(lease), timeout_ms=self._timeout_ms)

    @asynccontextmanager
    async def lease(self, ttl_ms: int = 10_000) -> AsyncIterator[int]:
        """Hold a lease within this block; yields its id, and ends it afterwards.

        If the lease cannot be kept, the block is cancelled and LeaseLostError raised, before the lease can end: log
        time is never ahead of this node's clock. Only a program that did not run meanwhile hears of it too late.
        """
        _check_ttl(ttl_ms)
        loop = asyncio.get_running_loop()
        held_s = ttl_ms / 1_000 * HELD_SHARE
        begun_s = loop.time()
        lease = await self.grant_lease(ttl_ms)
        limit = asyncio.timeout_at(begun_s + held_s)
        try:
            async with limit:
                keeper = loop.create_task(self.keep_until(lease, held_s, limit), name="pykraft lease")
                try:
                    yield lease
                finally:
                    keeper.cancel()
                    await asyncio.wait([keeper])
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise errors.LeaseLostError(f"lease {lease} of {ttl_ms} ms could not be kept") from error
        finally:
            if not limit.expired():
                with suppress(errors.PykraftError):  # then it ends by itself
                    await self._node.execute(
                        key_value_commands.EndLease(lease), timeout_ms=min(ttl_ms, self._timeout_ms)
                    )

    @asynccontextmanager
    async def hold(self, ttl_ms: int = 10_000) -> AsyncIterator[NodeLease]:
        """Hold a lease that all such blocks of this node share, so that thousands of them cost one keeping.

        If it cannot be kept, the blocks are cancelled and raise LeaseLostError, as with `lease`. What a block puts with
        ``lease`` it deletes itself, see `NodeLease.give_up`: the lease lives on for the others.
        """
        _check_ttl(ttl_ms)
        shared = self._node.machine.shared
        known = shared.get((NodeLease, ttl_ms))
        if not isinstance(known, NodeLease) or not known.is_open:
            known = shared[NodeLease, ttl_ms] = NodeLease(self, ttl_ms)
        async with known.block():
            yield known

    async def keep_until(self, lease: int, held_s: float, limit: asyncio.Timeout | NodeLease) -> None:
        """Keep a lease until its limit, which moves with each success."""
        loop = asyncio.get_running_loop()
        pause_s = held_s / KEEPS
        while True:
            await asyncio.sleep(pause_s)
            if limit.expired():
                return
            asked_s, limit_s = loop.time(), limit.when() or 0.0
            try:
                # To keep it twice does no harm, so it is tried until the limit, and again if an answer comes too early.
                await self.keep_lease(lease, timeout_ms=min(self._timeout_ms, max(1, int((limit_s - asked_s) * 1_000))))
                limit_s, pause_s = asked_s + held_s, held_s / KEEPS
            except (errors.CommandRejectedError, errors.NotRunningError):
                limit_s = asked_s
            except errors.PykraftError:
                pause_s = held_s / KEEPS / RETRIES
            if not limit.expired():
                limit.reschedule(limit_s)

    async def _first_revision(self, wanted: int | None) -> int:
        """Where a watch begins. Errors: UsageError for a revision that is yet to come."""
        if wanted is None:
            return await self.revision() + 1
        whole_number("from_revision", wanted, least=1, most=INT64_MAX)
        # Only for a revision that this node has not yet heard of somebody else has to be asked.
        last = self._node.machine.space.revision
        if wanted > last + 1:
            last = await self.revision()
        if wanted > last + 1:
            raise errors.UsageError(f"from_revision = {wanted}: the last change has revision {last}")
        return wanted
