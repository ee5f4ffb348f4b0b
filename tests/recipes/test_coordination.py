"""Locks, elections and barriers on three nodes, also when a holder or the quorum's leader dies."""

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import pytest

from pykraft import recipes
from pykraft.errors import (
    CompactedError,
    LeaseLostError,
    NotAppliedError,
    OutcomeUnknownError,
    PykraftError,
    UsageError,
)
from pykraft.recipes.coordination import AFTER_DIGITS, namespace, wait_deleted
from tests.recipes.stores import StoreNode, led, stores

QUEUE, QUEUE_OF_JOB, PARTIES = (
    (namespace(kind, name), namespace(kind, name) + AFTER_DIGITS)
    for kind, name in (("lock", "tool"), ("lock", "job"), ("barrier", "start"))
)


async def test_one_holder_at_a_time_in_the_order_of_arrival(tmp_path: Path) -> None:
    async with stores(tmp_path) as nodes:
        tokens: list[int] = []
        inside = 0

        async def work(node: StoreNode) -> None:
            nonlocal inside
            async with recipes.lock(recipes.KeyValueStore(node), "tool", holder=f"node {node.node.node_id}") as held:
                inside += 1
                assert inside == 1
                holder = await recipes.holder_of(recipes.KeyValueStore(nodes[0]), "tool")
                assert holder is not None
                assert (holder.value, holder.created) == (f"node {node.node.node_id}", held.token)
                tokens.append(held.token)
                inside -= 1

        await asyncio.gather(*map(work, nodes * 3))
        assert tokens == sorted(set(tokens))
        assert len(tokens) == 9
        assert await recipes.holder_of(recipes.KeyValueStore(nodes[0]), "tool") is None


async def test_the_death_of_holder_and_leader_hands_the_lock_on_by_log_time(tmp_path: Path) -> None:
    async with stores(tmp_path) as nodes:
        leader, follower = await led(nodes)
        held: list[recipes.HeldLock] = []
        is_held = asyncio.Event()

        async def hold() -> None:
            async with recipes.lock(leader, "tool", ttl_ms=1_000) as one:
                held.append(one)
                is_held.set()
                await asyncio.Event().wait()

        holder = asyncio.ensure_future(hold())
        await is_held.wait()
        waiter = recipes.lock(follower, "tool")
        waiting = asyncio.ensure_future(waiter.__aenter__())
        while len(await follower.range(*QUEUE)) < 2:
            pass
        await leader._node.close()
        second = await waiting
        assert second.token > held[0].token
        # The first token is refused now, and the second one is not.
        for one, is_fine in ((held[0], False), (second, True)):
            result = await follower.transact([recipes.Put("effect", "")], [one.condition])
            assert result.succeeded is is_fine
        with pytest.raises(LeaseLostError):
            await holder
        await waiter.__aexit__(None, None, None)


async def test_whoever_gives_up_waiting_leaves_the_line(tmp_path: Path) -> None:
    async with stores(tmp_path, 1) as [node]:
        store = recipes.KeyValueStore(node)
        async with recipes.lock(store, "tool"):
            waiting = asyncio.ensure_future(recipes.lock(store, "tool").__aenter__())
            while len(await store.range(*QUEUE)) < 2:
                pass
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert len(await store.range(*QUEUE)) == 1
        async with asyncio.timeout(10), recipes.lock(store, "tool"):
            pass


async def test_an_error_of_the_block_frees_the_lock(tmp_path: Path) -> None:
    async with stores(tmp_path, 1) as [node]:
        store = recipes.KeyValueStore(node)
        with pytest.raises(PykraftError, match="of the block"):
            async with recipes.lock(store, "tool"):
                raise PykraftError("of the block")
        assert await recipes.holder_of(store, "tool") is None


async def test_a_lock_is_not_that_of_a_longer_name(tmp_path: Path) -> None:
    async with stores(tmp_path, 1) as [node]:
        store = recipes.KeyValueStore(node)
        async with asyncio.timeout(10), recipes.lock(store, "tool/0"):
            assert await recipes.holder_of(store, "tool") is None
            async with recipes.lock(store, "tool") as held:
                holder = await recipes.holder_of(store, "tool")
                assert holder is not None
                assert holder.created == held.token


async def test_no_name_reaches_into_the_keys_of_another_recipe(tmp_path: Path) -> None:
    async with stores(tmp_path, 1) as [node]:
        store = recipes.KeyValueStore(node)
        queue = recipes.JobQueue(store, "mail")
        names = ("mail", "mail/job", "mail/jobs", "mail/", "mail%2Fjob", "../queue/mail/job", "0" * 16, "mail/0")
        async with contextlib.AsyncExitStack() as stack:
            async with asyncio.timeout(20):
                for name in names:
                    await stack.enter_async_context(recipes.lock(store, name))
                    await stack.enter_async_context(recipes.leadership(store, f"{name}/job/x", "one"))
            assert await queue.count() == 0
            barrier = recipes.Barrier(store, "mail", 2)
            assert sorted(await asyncio.gather(barrier.wait(), barrier.wait())) == [0, 1]
            assert len(node.machine._leases) == 1, "one lease for all of them"


async def test_a_lock_that_is_taken_is_not_waited_for(tmp_path: Path) -> None:
    async with stores(tmp_path, 1) as [node]:
        store = recipes.KeyValueStore(node)
        async with recipes.try_lock(store, "tool", holder="one") as held:
            assert held is not None
            async with recipes.try_lock(store, "tool") as other:
                assert other is None
            holder = await recipes.holder_of(store, "tool")
            assert holder is not None
            assert (holder.value, holder.created) == ("one", held.token)
        places = [recipes.try_lock(store, "tool") for _ in range(5)]
        taken = await asyncio.gather(*(place.__aenter__() for place in places))
        assert [one is not None for one in taken].count(True) == 1
        for place in places:
            await place.__aexit__(None, None, None)
        async with recipes.try_lock(store, "tool") as held:
            assert held is not None


@pytest.mark.parametrize("is_applied", [True, False])
async def test_a_candidate_that_does_not_know_its_number_leaves_the_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_applied: bool
) -> None:
    async with stores(tmp_path, 1) as [node]:
        store = recipes.KeyValueStore(node)
        async with recipes.lock(store, "other"):  # keeps the lease of this node
            transact = store.transact
            late: list[Any] = []

            async def unknown(*wanted: Any, **others: Any) -> Any:
                if isinstance(wanted[0][0], recipes.Put) and wanted[0][0].numbered:
                    late.append(wanted)
                    if is_applied:
                        await transact(*wanted)
                    raise OutcomeUnknownError("no answer")
                return await transact(*wanted, **others)

            with monkeypatch.context() as patch:
                patch.setattr(store, "transact", unknown)
                with pytest.raises(OutcomeUnknownError):
                    async with recipes.lock(store, "tool"):
                        pass
            assert await store.range(*QUEUE) == []
            assert is_applied or not (await store.transact(*late[0])).succeeded, "it comes too late"
            async with asyncio.timeout(10), recipes.lock(store, "tool"):
                pass


async def test_what_cannot_be_given_up_now_is_given_up_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with stores(tmp_path, 1) as [node]:
        store = recipes.KeyValueStore(node)
        async with recipes.lock(store, "other", ttl_ms=2_000):
            transact, tries, is_gone = store.transact, list[Any](), asyncio.Event()

            async def failing(*wanted: Any, **others: Any) -> Any:
                if isinstance(wanted[0][0], recipes.Delete):
                    tries.append(wanted)
                    if len(tries) < 3:
                        raise NotAppliedError("nobody leads")
                    is_gone.set()
                return await transact(*wanted, **others)

            monkeypatch.setattr(store, "transact", failing)
            async with recipes.lock(store, "tool", ttl_ms=2_000):
                pass
            await is_gone.wait()
            async with asyncio.timeout(10), recipes.lock(store, "tool", ttl_ms=2_000):
                pass


async def test_who_waits_for_what_was_compacted_waits_for_what_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with stores(tmp_path, 1) as [node]:
        store, looks = recipes.KeyValueStore(node), asyncio.Queue[int]()
        await store.put("held", "")
        item = await store.get("held")
        assert item is not None
        await store.compact(await store.put("other", "") + 1)
        revision = recipes.KeyValueStore.revision

        async def counted(self: recipes.KeyValueStore) -> int:
            looks.put_nowait(1)
            return await revision(self)

        monkeypatch.setattr(recipes.KeyValueStore, "revision", counted)
        waiting = asyncio.ensure_future(wait_deleted(store, item))
        await looks.get()
        for turn in range(20):
            await store.put("other", str(turn))
        assert not waiting.done()
        assert looks.empty(), "it looks once, not again and again"
        await store.delete("held")
        await waiting


async def test_an_item_that_is_another_one_by_now_is_gone(tmp_path: Path) -> None:
    async with stores(tmp_path, 1) as [node]:
        store = recipes.KeyValueStore(node)
        await store.put("held", "")
        item = await store.get("held")
        assert item is not None
        await store.delete("held")
        await store.put("held", "by another one")
        await store.compact(await store.put("other", "") + 1)
        await wait_deleted(store, item)


async def test_candidates_lead_in_turn_and_everybody_hears(tmp_path: Path) -> None:
    async with stores(tmp_path) as nodes:
        first, second, watcher = map(recipes.KeyValueStore, nodes)
        seen = recipes.leaders(watcher, "job")
        assert await anext(seen) is None
        terms = []
        async with recipes.leadership(first, "job", "first") as held:
            terms.append(held.token)
            assert await anext(seen) == "first"
            assert await recipes.leader_of(second, "job") == "first"
            other = recipes.leadership(second, "job", "second")
            waiting = asyncio.ensure_future(other.__aenter__())
            while len(await watcher.range(*QUEUE_OF_JOB)) < 2:
                pass
        terms.append((await waiting).token)
        assert await anext(seen) == "second"
        assert terms[0] < terms[1]
        await other.__aexit__(None, None, None)
        assert await anext(seen) is None
        await seen.aclose()


async def test_the_death_of_the_leader_elects_another_one(tmp_path: Path) -> None:
    async with stores(tmp_path) as nodes:
        leader, follower = await led(nodes)
        is_held = asyncio.Event()

        async def lead() -> None:
            async with recipes.leadership(leader, "job", "first", ttl_ms=1_000):
                is_held.set()
                await asyncio.Event().wait()

        first = asyncio.ensure_future(lead())
        await is_held.wait()
        seen = recipes.leaders(follower, "job")
        assert await anext(seen) == "first"
        other = recipes.leadership(follower, "job", "second")
        waiting = asyncio.ensure_future(other.__aenter__())
        await leader._node.close()
        await waiting
        while (name := await anext(seen)) != "second":
            assert name is None
        with pytest.raises(LeaseLostError):
            await first
        await other.__aexit__(None, None, None)
        await seen.aclose()


async def test_a_watch_that_comes_too_late_looks_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with stores(tmp_path, 1) as [node]:
        store = recipes.KeyValueStore(node)
        seen = recipes.leaders(store, "job")
        assert await anext(seen) is None
        watch = store.watch
        calls: list[int] = []

        def late(key: str, end: str | None, *, from_revision: int) -> object:
            calls.append(from_revision)
            if len(calls) == 1:
                raise CompactedError(1, 2)
            return watch(key, end, from_revision=from_revision)

        monkeypatch.setattr(store, "watch", late)
        waiting = asyncio.ensure_future(anext(seen))
        while len(calls) < 2:
            await store.get("job")
        async with recipes.leadership(recipes.KeyValueStore(node), "job", "one"):
            assert await waiting == "one"
        await seen.aclose()


async def test_all_go_on_together_again_and_again(tmp_path: Path) -> None:
    async with stores(tmp_path) as nodes:
        barriers = [recipes.Barrier(recipes.KeyValueStore(node), "start", 3) for node in nodes]
        for _ in range(2):
            waiting = [asyncio.ensure_future(one.wait()) for one in barriers[:2]]
            while len(await barriers[0]._store.range(*PARTIES)) < 2:
                pass
            assert not any(one.done() for one in waiting)
            places = await asyncio.gather(*waiting, barriers[2].wait())
            assert sorted(places) == [0, 1, 2]
            assert places[2] == 2
        assert await barriers[0]._store.range(*PARTIES) == []


async def test_the_dead_do_not_count(tmp_path: Path) -> None:
    async with stores(tmp_path) as nodes:
        leader, follower = await led(nodes)
        dead = asyncio.ensure_future(recipes.Barrier(leader, "start", 2, ttl_ms=1_000).wait())
        while not await follower.range(*PARTIES):
            pass
        changes = follower.watch(*PARTIES, from_revision=await follower.revision())
        await anext(changes)
        await leader._node.close()
        while (await anext(changes)).item is not None:
            pass
        await changes.aclose()
        await asyncio.wait([dead])
        assert dead.exception() is not None
        barrier = recipes.Barrier(follower, "start", 2)
        assert sorted(await asyncio.gather(barrier.wait(), barrier.wait())) == [0, 1]


async def test_a_barrier_does_not_open_for_whoever_has_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with stores(tmp_path, 1) as [node]:
        store = recipes.KeyValueStore(node)
        barrier = recipes.Barrier(store, "start", 2)
        first = asyncio.ensure_future(barrier.wait())
        while not await store.range(*PARTIES):
            pass
        read = store.range

        async def before_it_left(*wanted: Any, **others: Any) -> Any:
            found = await read(*wanted, **others)
            if len(found) == 2 and not first.done():
                first.cancel()
                await asyncio.wait([first])
            return found

        monkeypatch.setattr(store, "range", before_it_left)
        second = asyncio.ensure_future(barrier.wait())
        while not first.done():
            await store.revision()
        third = asyncio.ensure_future(barrier.wait())
        assert sorted(await asyncio.gather(second, third)) == [0, 1]
        assert await store.range(*PARTIES) == []


async def test_parties_are_bounded(tmp_path: Path) -> None:
    async with stores(tmp_path, 1) as [node]:
        for parties in (0, 129):
            with pytest.raises(UsageError, match="parties"):
                recipes.Barrier(recipes.KeyValueStore(node), "start", parties)
        assert await recipes.Barrier(recipes.KeyValueStore(node), "start", 1).wait() == 0
