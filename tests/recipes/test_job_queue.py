"""Queues on three nodes: each job is done, also when its worker fails or dies, and ends once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pykraft.errors import LeaseLostError
from pykraft.recipes import JobQueue, KeyValueStore, Put
from tests.client.nodes import run
from tests.recipes.stores import led, stores


def test_each_job_is_done_by_one_worker(tmp_path: Path) -> None:
    async def main() -> None:
        async with stores(tmp_path) as nodes:
            queues = [JobQueue(KeyValueStore(node), "mail") for node in nodes]
            done: list[str] = []

            async def work(queue: JobQueue, count: int) -> None:
                for _ in range(count):
                    async with queue.take() as job:
                        done.append(job.value)

            workers = [asyncio.ensure_future(work(queue, 3)) for queue in queues]
            numbers = [await queues[at % 3].put(str(at)) for at in range(9)]
            await asyncio.gather(*workers)
            assert numbers == sorted(numbers)
            assert sorted(done) == [str(at) for at in range(9)]
            assert await queues[0].count() == 0

    run(main)


def test_jobs_come_in_their_order_and_a_failed_one_again(tmp_path: Path) -> None:
    async def main() -> None:
        async with stores(tmp_path, 1) as [node]:
            queue = JobQueue(KeyValueStore(node), "mail")
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
                await job.done([Put("result", "x")])
            assert await KeyValueStore(node).get("result") is not None
            assert await queue.count() == 0

    run(main)


def test_the_job_of_a_dead_worker_goes_to_another_one(tmp_path: Path) -> None:
    async def main() -> None:
        async with stores(tmp_path) as nodes:
            leader, follower = await led(nodes)
            await JobQueue(leader, "mail").put("a")
            numbers: list[int] = []
            is_taken = asyncio.Event()

            async def work() -> None:
                async with JobQueue(leader, "mail", ttl_ms=1_000).take() as job:
                    numbers.append(job.number)
                    is_taken.set()
                    await asyncio.Event().wait()

            worker = asyncio.ensure_future(work())
            await is_taken.wait()
            await leader._node.close()
            async with JobQueue(follower, "mail").take() as job:
                assert (job.value, [job.number]) == ("a", numbers)
            with pytest.raises(LeaseLostError):
                await worker

    run(main)


def test_a_worker_whose_job_went_to_another_one_cannot_end_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with stores(tmp_path, 1) as [node]:
            store = KeyValueStore(node)
            queue = JobQueue(store, "mail")
            await queue.put("a")
            async with queue.take() as job:
                await store.delete(job._claim)
                async with queue.take() as other:
                    with pytest.raises(LeaseLostError, match=f"job {job.number} was given to another worker"):
                        await job.done([Put("result", "x")])
                    assert await store.get("result") is None
                    assert other.number == job.number
                job._is_done = True

    run(main)
