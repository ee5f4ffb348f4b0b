"""Each job is done by one worker at a time, on three nodes, also when a worker or the quorum's leader dies."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pykraft import recipes
from pykraft.errors import LeaseLostError, NotAppliedError, NotRunningError, OutcomeUnknownError, UsageError
from pykraft.recipes import JobQueue, key_space
from pykraft.recipes.key_value_commands import Compact
from tests.recipes.stores import led, stores


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
        queue = recipes.JobQueue(recipes.KeyValueStore(node), "mail", retry_ms=0)
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
            assert job.attempt == 2
        with pytest.raises(LeaseLostError):
            await worker


async def test_a_worker_whose_job_went_to_another_one_cannot_end_it(tmp_path: Path) -> None:
    async with stores(tmp_path, 1) as [node]:
        store = recipes.KeyValueStore(node)
        queue = recipes.JobQueue(store, "mail")
        await queue.put("a")
        async with queue.take() as job:
            await store.delete(job.condition.key)
            async with queue.take() as other:
                with pytest.raises(LeaseLostError, match=f"job {job.number} was given to another worker"):
                    await job.done([recipes.Put("result", "x")])
                assert await store.get("result") is None
                assert (other.number, other.attempt) == (job.number, job.attempt + 1)
                assert other.token > job.token
            job._is_done = True


async def fail(queue: JobQueue) -> tuple[int, int]:
    """Take a job and fail; returns its attempt and its token."""
    place = queue.take()
    job = await place.__aenter__()
    assert not await place.__aexit__(ZeroDivisionError, ZeroDivisionError(), None)
    return job.attempt, job.token


async def test_a_job_that_always_fails_waits_longer_each_time_and_is_a_dead_letter_at_last(tmp_path: Path) -> None:
    async with stores(tmp_path, 1) as [node]:
        store = recipes.KeyValueStore(node)
        queue = JobQueue(store, "mail", attempts=2, retry_ms=1_000)
        number = await queue.put("a")
        begun_ms = node.machine.deadline_ms() or 0
        first = await fail(queue)
        assert max(one.ttl_ms for one in node.machine._leases.values() if one.keys) == 1_000
        second = await fail(queue)
        assert node._replica.time_ms >= begun_ms
        assert (first[0], second[0]) == (1, 2)
        assert first[1] < second[1]
        assert (await queue.count(), await queue.dead_letters()) == (0, {number: "a"})
        assert await queue.revive(number)
        assert not await queue.revive(number)
        async with queue.take() as job:
            assert (job.value, job.attempt) == ("a", 1)
        assert await queue.put("b") == await queue.put("c") - 1
        await fail(JobQueue(store, "mail", attempts=1))
        [(number, value)] = (await queue.dead_letters()).items()
        assert value == "b"
        assert await queue.discard(number)
        assert not await queue.discard(number)
        keys = [item.key for item in await store.range("", "")]
        assert len([key for key in keys if "/tries/" in key or "/claim/" in key]) == 0


async def test_a_job_whose_workers_die_is_a_dead_letter_at_last(tmp_path: Path) -> None:
    async with stores(tmp_path) as nodes:
        leader, follower = await led(nodes)
        number = await JobQueue(leader, "mail").put("a")
        is_taken = asyncio.Event()

        async def work() -> None:
            async with JobQueue(leader, "mail", ttl_ms=1_000).take():
                is_taken.set()
                await asyncio.Event().wait()

        worker = asyncio.ensure_future(work())
        await is_taken.wait()
        await leader._node.close()
        queue = JobQueue(follower, "mail", attempts=1)
        taking = asyncio.ensure_future(queue.take().__aenter__())
        while not await queue.dead_letters():
            await follower.revision()
        assert await queue.dead_letters() == {number: "a"}
        taking.cancel()
        await asyncio.wait([taking, worker])
        assert isinstance(worker.exception(), LeaseLostError)


async def test_many_workers_write_two_records_a_job(tmp_path: Path) -> None:
    async with stores(tmp_path, 1) as [node]:
        store = recipes.KeyValueStore(node)
        queue = JobQueue(store, "mail")
        for at in range(100):
            await queue.put(str(at))
        done: list[str] = []

        async def work() -> None:
            async with queue.take() as job:
                done.append(job.value)

        begin = node.node.log_end_offset
        await asyncio.gather(*(work() for _ in range(100)))
        assert sorted(done, key=int) == [str(at) for at in range(100)]
        assert node.node.log_end_offset - begin < 200
        assert len(node.machine.watches) == 1


async def test_a_worker_that_stops_waiting_leaves_its_job_to_others(tmp_path: Path) -> None:
    async with stores(tmp_path, 1) as [node]:
        queue = JobQueue(recipes.KeyValueStore(node), "mail")
        waiting = [asyncio.ensure_future(queue.take().__aenter__()) for _ in range(3)]
        while not node.machine.watches:
            await queue.count()
        await queue.put("a")
        for one in waiting:
            one.cancel()
        await asyncio.wait(waiting)
        for one in waiting:
            if not one.cancelled():
                pytest.fail("it was to be cancelled")
        async with asyncio.timeout(10), queue.take() as job:
            assert (job.value, job.attempt) == ("a", 1)


@pytest.mark.parametrize("is_applied", [True, False])
async def test_a_claim_whose_outcome_is_unknown_is_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_applied: bool
) -> None:
    async with stores(tmp_path, 1) as [node]:
        store = recipes.KeyValueStore(node)
        queue = JobQueue(store, "mail")
        transact = store.transact
        late: list[Any] = []

        async def unknown(*wanted: Any, **others: Any) -> Any:
            if not late and "/claim/" in wanted[0][0].key:
                late.append(wanted)
                if is_applied:
                    await transact(*wanted)
                raise OutcomeUnknownError("no answer")
            return await transact(*wanted, **others)

        await queue.put("a")
        monkeypatch.setattr(store, "transact", unknown)
        async with recipes.lock(store, "other"):  # keeps the lease of this node
            with pytest.raises(OutcomeUnknownError):
                async with queue.take():
                    pass
            while not any("/tries/" in item.key for item in await store.range("", "")):
                assert not is_applied, "the claim counted the attempt"
            assert is_applied or not (await store.transact(*late[0])).succeeded, "it comes too late"
            async with asyncio.timeout(10), queue.take() as job:
                assert (job.value, job.attempt) == ("a", 1)


async def test_another_node_may_be_faster_and_a_desk_finds_what_was_compacted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_space, "CHANGES_MAX", 8)
    async with stores(tmp_path) as nodes:
        queues = [JobQueue(recipes.KeyValueStore(node), "mail") for node in nodes]
        done: list[str] = []

        async def work(queue: JobQueue) -> None:
            async with queue.take() as job:
                done.append(job.value)

        workers = [asyncio.ensure_future(work(queue)) for queue in queues * 10]
        for at in range(30):
            await queues[at % 3].put(str(at))
            await queues[0]._store._node.execute(Compact(await queues[0]._store.revision()))
        await asyncio.gather(*workers)
        assert sorted(done, key=int) == [str(at) for at in range(30)]
        assert await queues[0].count() == 0


async def test_workers_hear_that_their_node_ends(tmp_path: Path) -> None:
    async with stores(tmp_path, 1) as [node]:
        queue = JobQueue(recipes.KeyValueStore(node), "mail")
        waiting = asyncio.ensure_future(queue.take().__aenter__())
        while not node.machine.watches:
            await queue.count()
        await node.close()
        with pytest.raises((NotRunningError, LeaseLostError, NotAppliedError)):
            await waiting


async def test_wrong_settings_of_a_queue_are_refused(tmp_path: Path) -> None:
    async with stores(tmp_path, 1) as [node]:
        store = recipes.KeyValueStore(node)
        for wrong in ({"attempts": 0}, {"retry_ms": 999}, {"retry_ms": 86_400_001}):
            with pytest.raises(UsageError, match=next(iter(wrong))):
                JobQueue(store, "mail", **wrong)
