"""Waiters for a leader wake at each change, and all of them at the end."""

from __future__ import annotations

import asyncio

from pykraft.client.thread import SameLoop
from pykraft.client.watch import LeaderWatch
from pykraft.types import Epoch, NodeId
from tests.client.nodes import TIMEOUT_S, run


def test_all_who_wait_are_woken_and_wait_again_for_the_next_news() -> None:
    async def main() -> None:
        watch = LeaderWatch(SameLoop())
        for _ in range(2):
            waiting = [asyncio.create_task(watch.wait()) for _ in range(3)]
            done, _ = await asyncio.wait(waiting, timeout=0)
            assert not done
            watch.on_commit([])
            watch.on_leader_change(Epoch(1), NodeId(2))
            await asyncio.wait_for(asyncio.gather(*waiting), TIMEOUT_S)

    run(main)
