"""Barriers on three nodes: all go on together, and the dead do not count."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pykraft.errors import UsageError
from pykraft.recipes import Barrier, KeyValueStore
from tests.client.nodes import run
from tests.recipes.stores import led, stores


def test_all_go_on_together_again_and_again(tmp_path: Path) -> None:
    async def main() -> None:
        async with stores(tmp_path) as nodes:
            barriers = [Barrier(KeyValueStore(node), "start", 3) for node in nodes]
            for _ in range(2):
                waiting = [asyncio.ensure_future(one.wait()) for one in barriers[:2]]
                while len(await barriers[0]._store.range("start/", "")) < 2:
                    pass
                assert not any(one.done() for one in waiting)
                places = await asyncio.gather(*waiting, barriers[2].wait())
                assert sorted(places) == [0, 1, 2]
                assert places[2] == 2
            assert await barriers[0]._store.range("start/", "") == []

    run(main)


def test_the_dead_do_not_count(tmp_path: Path) -> None:
    async def main() -> None:
        async with stores(tmp_path) as nodes:
            leader, follower = await led(nodes)
            dead = asyncio.ensure_future(Barrier(leader, "start", 2, ttl_ms=1_000).wait())
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
            barrier = Barrier(follower, "start", 2)
            assert sorted(await asyncio.gather(barrier.wait(), barrier.wait())) == [0, 1]

    run(main)


def test_parties_are_bounded(tmp_path: Path) -> None:
    async def main() -> None:
        async with stores(tmp_path, 1) as [node]:
            for parties in (0, 129):
                with pytest.raises(UsageError, match="parties"):
                    Barrier(KeyValueStore(node), "start", parties)
            assert await Barrier(KeyValueStore(node), "start", 1).wait() == 0

    run(main)
