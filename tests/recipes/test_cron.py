"""Each tick comes on one of all nodes."""

import asyncio
import itertools
from contextlib import aclosing
from pathlib import Path

from pykraft.recipes import JobQueue, KeyValueStore, cron
from tests.recipes.stores import StoreNode, stores


async def test_each_tick_is_given_to_one_node_with_its_effects(tmp_path: Path) -> None:
    async with stores(tmp_path) as nodes:
        ticks: list[int] = []
        queue = JobQueue(KeyValueStore(nodes[0]), "mail")
        enough = asyncio.Event()

        async def run(node: StoreNode) -> None:
            clock = itertools.count(1_000)  # a second for each look
            async with aclosing(
                cron(KeyValueStore(node), "report", 1, [queue.put_operation("report")], now=lambda: float(next(clock)))
            ) as mine:
                async for tick in mine:
                    ticks.append(tick)
                    if len(ticks) >= 9:
                        enough.set()

        running = [asyncio.ensure_future(run(node)) for node in nodes]
        await enough.wait()
        for one in running:
            one.cancel()
        await asyncio.wait(running)
        assert len(set(ticks)) == len(ticks)
        assert await queue.count() >= len(ticks)
        assert min(ticks) > 1_000
