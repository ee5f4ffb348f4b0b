"""Locks, elections, barriers and queues on three nodes, also when a holder, a worker or the quorum's leader dies."""

import asyncio
from pathlib import Path

import pytest

from pykraft import recipes
from pykraft.errors import CompactedError, LeaseLostError, PykraftError, UsageError
from pykraft.recipes.coordination import wait_deleted
from tests.recipes.stores import StoreNode, led, stores


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
        while len(await follower.range("tool/", "")) < 2:
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
            while len(await store.range("tool/", "")) < 2:
                pass
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert len(await store.range("tool/", "")) == 1
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
            while len(await watcher.range("job/", "")) < 2:
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
            while len(await barriers[0]._store.range("start/", "")) < 2:
                pass
            assert not any(one.done() for one in waiting)
            places = await asyncio.gather(*waiting, barriers[2].wait())
            assert sorted(places) == [0, 1, 2]
            assert places[2] == 2
        assert await barriers[0]._store.range("start/", "") == []


async def test_the_dead_do_not_count(tmp_path: Path) -> None:
    async with stores(tmp_path) as nodes:
        leader, follower = await led(nodes)
        dead = asyncio.ensure_future(recipes.Barrier(leader, "start", 2, ttl_ms=1_000).wait())
        while not await follower.range("start/", ""):
            pass
        changes = follower.watch("start/", "", from_revision=await follower.revision())
        await anext(changes)
        await leader._node.close()
        while (await anext(changes)).item is not None:
            pass
        await changes.aclose()
        await asyncio.wait([dead])
        assert dead.exception() is not None
        barrier = recipes.Barrier(follower, "start", 2)
        assert sorted(await asyncio.gather(barrier.wait(), barrier.wait())) == [0, 1]


async def test_parties_are_bounded(tmp_path: Path) -> None:
    async with stores(tmp_path, 1) as [node]:
        for parties in (0, 129):
            with pytest.raises(UsageError, match="parties"):
                recipes.Barrier(recipes.KeyValueStore(node), "start", parties)
        assert await recipes.Barrier(recipes.KeyValueStore(node), "start", 1).wait() == 0


async def test_each_job_is_done_by_one_worker(tmp_path: Path) -> None:
    async with stores(tmp_path) as nodes:
        queues = [recipes.JobQueue(recipes.KeyValueStore(node), "mail") for node in nodes]
        done: list[str] = []

        async def work(queue: recipes.JobQueue, count: int) -> None:
            for _ in range(count):
                async with queue.take() as job:
                    done.append(job.value)

        workers = [asyncio.ensure_future(work(queue, 3)) for queue in queues]
        numbers = [await queues[at % 3].put(str(at)) for at in range(9)]
        await asyncio.gather(*workers)
        assert numbers == sorted(numbers)
        assert sorted(done) == [str(at) for at in range(9)]
        assert await queues[0].count() == 0


async def test_jobs_come_in_their_order_and_a_failed_one_again(tmp_path: Path) -> None:
    async with stores(tmp_path, 1) as [node]:
        queue = recipes.JobQueue(recipes.KeyValueStore(node), "mail")
        first = await queue.put("a")
        await queue.put("b")

        async def fail() -> None:
            async with queue.take() as job:
                assert (job.value, job.number) == ("a", first)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fail()
        async with queue.take() as job, queue.take() as other:
            assert (job.value, other.value) == ("a", "b")
            await job.done([recipes.Put("result", "x")])
        assert await recipes.KeyValueStore(node).get("result") is not None
        assert await queue.count() == 0


async def test_the_job_of_a_dead_worker_goes_to_another_one(tmp_path: Path) -> None:
    async with stores(tmp_path) as nodes:
        leader, follower = await led(nodes)
        await recipes.JobQueue(leader, "mail").put("a")
        numbers: list[int] = []
        is_taken = asyncio.Event()

        async def work() -> None:
            async with recipes.JobQueue(leader, "mail", ttl_ms=1_000).take() as job:
                numbers.append(job.number)
                is_taken.set()
                await asyncio.Event().wait()

        worker = asyncio.ensure_future(work())
        await is_taken.wait()
        await leader._node.close()
        async with recipes.JobQueue(follower, "mail").take() as job:
            assert (job.value, [job.number]) == ("a", numbers)
        with pytest.raises(LeaseLostError):
            await worker


async def test_a_worker_whose_job_went_to_another_one_cannot_end_it(tmp_path: Path) -> None:
    async with stores(tmp_path, 1) as [node]:
        store = recipes.KeyValueStore(node)
        queue = recipes.JobQueue(store, "mail")
        await queue.put("a")
        async with queue.take() as job:
            await store.delete(job._claim)
            async with queue.take() as other:
                with pytest.raises(LeaseLostError, match=f"job {job.number} was given to another worker"):
                    await job.done([recipes.Put("result", "x")])
                assert await store.get("result") is None
                assert other.number == job.number
            job._is_done = True
