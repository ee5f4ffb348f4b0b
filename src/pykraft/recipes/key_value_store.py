"""The key-value store of a program: what `KeyValues` does, as calls on any node of the quorum.

Reads are linearizable unless they are told to be stale; each change is applied once; a watch misses nothing or says so.
A call raises what `pykraft.machine.Replicated.execute` and ``read`` raise, which says whether a change was made.

Source: ours (ADR 087).
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
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


class KeyValueStore:
    """The store, by way of this node. See `Item` for what is known of a key, and `prefix` for ranges."""

    def __init__(self, node: Replicated[KeyValues], *, timeout_ms: int = 10_000) -> None:
        """``timeout_ms`` is how long each call tries."""
        self._node = node
        self._timeout_ms = timeout_ms

    async def get(
        self, key: str, *, stale: bool = False, max_age_ms: int | None = None
    ) -> key_value_commands.Item | None:
        """The item of this key; None when there is none. For stale reads see `pykraft.machine.Replicated.read`."""
        key_value_commands.check_range(key)
        async with self._node.read(stale=stale, max_age_ms=max_age_ms, timeout_ms=self._timeout_ms) as state:
            return state.get(key)

    async def range(
        self,
        key: str,
        end: str | None = None,
        *,
        limit: int = 1_000,
        stale: bool = False,
        max_age_ms: int | None = None,
    ) -> list[key_value_commands.Item]:
        """Up to ``limit`` items of a range, in the order of their keys."""
        key_value_commands.check_range(key, end)
        whole_number("limit", limit, least=1)
        async with self._node.read(stale=stale, max_age_ms=max_age_ms, timeout_ms=self._timeout_ms) as state:
            return state.range(key, end, limit)

    async def revision(self) -> int:
        """The revision of the last change, linearizable: a watch from the next one misses nothing later."""
        async with self._node.read(timeout_ms=self._timeout_ms) as state:
            return state.space.revision

    async def put(self, key: str, value: str, *, lease: int = 0) -> int:
        """Set a key; returns the revision of the change."""
        return (await self.transact([key_value_commands.Put(key, value, lease)])).revision

    async def delete(self, key: str, end: str | None = None) -> int:
        """Delete a key or a range; returns how many keys there were."""
        return (await self.transact([key_value_commands.Delete(key, end)])).deleted

    async def compare_and_set(self, key: str, expected: str | None, value: str, *, lease: int = 0) -> bool:
        """Set a key if its value is the expected one, or if it does not exist and None is expected."""
        condition = key_value_commands.Condition(key, "value", "==", expected)
        return (await self.transact([key_value_commands.Put(key, value, lease)], [condition])).succeeded

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
        whole_number(
            "ttl_ms", ttl_ms, least=key_value_commands.LEASE_TTL_MS_MIN, most=key_value_commands.LEASE_TTL_MS_MAX
        )
        loop = asyncio.get_running_loop()
        held_s = ttl_ms / 1_000 * HELD_SHARE
        begun_s = loop.time()
        lease = await self.grant_lease(ttl_ms)
        limit = asyncio.timeout_at(begun_s + held_s)
        try:
            async with limit:
                keeper = loop.create_task(self._keep(lease, held_s, limit), name="pykraft lease")
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

    async def _keep(self, lease: int, held_s: float, limit: asyncio.Timeout) -> None:
        loop = asyncio.get_running_loop()
        pause_s = held_s / KEEPS
        while not limit.expired():
            await asyncio.sleep(pause_s)
            asked_s, limit_s = loop.time(), limit.when() or 0.0
            try:
                # To keep it twice does no harm, so it is tried until the limit, and again if an answer comes too early.
                await self.keep_lease(lease, timeout_ms=min(self._timeout_ms, max(1, int((limit_s - asked_s) * 1_000))))
                limit_s, pause_s = asked_s + held_s, held_s / KEEPS
            except errors.CommandRejectedError:
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
