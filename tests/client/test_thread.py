"""Calls cross between loops in order, a stop ends a cancelled node, and errors come back."""

from __future__ import annotations

import asyncio
import threading

import pytest

from pykraft.client.thread import NodeLoops, OwnThread
from tests.client.nodes import TIMEOUT_S, run


class Served:
    """A main that runs until it is stopped, and what it was told."""

    def __init__(self, loops: NodeLoops) -> None:
        self.loops = loops
        self.told: list[int] = []
        self.ran_on: set[asyncio.AbstractEventLoop] = set()
        self.began = asyncio.Event()
        self._ended: asyncio.Future[None] | None = None

    async def main(self) -> None:
        self._ended = asyncio.get_running_loop().create_future()
        self.ran_on.add(asyncio.get_running_loop())
        self.loops.to_application(self.began.set)
        await self._ended

    def stop(self) -> None:
        assert self._ended is not None
        self._ended.set_result(None)

    def tell(self, number: int) -> None:
        self.ran_on.add(asyncio.get_running_loop())
        self.told.append(number)


@pytest.mark.parametrize(("loops", "count"), [(NodeLoops, 1), (OwnThread, 2)])
def test_calls_arrive_in_order_on_the_nodes_loop(loops: type[NodeLoops], count: int) -> None:
    async def main() -> None:
        served = Served(loops())
        task = asyncio.create_task(served.loops.run(served.main, served.stop))
        await asyncio.wait_for(served.began.wait(), TIMEOUT_S)
        for number in range(1_000):
            served.loops.to_node(served.tell, number)
        served.loops.to_node(served.stop)
        await asyncio.wait_for(task, TIMEOUT_S)
        assert served.told == [*range(1_000)]
        assert len({*served.ran_on, asyncio.get_running_loop()}) == count

    run(main)


def test_calls_that_come_while_others_are_carried_out_come_next() -> None:
    async def main() -> None:
        served = Served(OwnThread())
        task = asyncio.create_task(served.loops.run(served.main, served.stop))
        await asyncio.wait_for(served.began.wait(), TIMEOUT_S)
        heard: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def again(number: int) -> None:
            if number:
                served.loops.to_node(again, number - 1)
            else:
                served.loops.to_application(heard.set_result, None)

        served.loops.to_node(again, 100)
        await asyncio.wait_for(heard, TIMEOUT_S)
        served.loops.to_node(served.stop)
        await task

    run(main)


@pytest.mark.parametrize("loops", [NodeLoops(), OwnThread()])
def test_what_main_raises_comes_back(loops: NodeLoops) -> None:
    async def failing() -> None:
        raise ZeroDivisionError

    async def main() -> None:
        with pytest.raises(ZeroDivisionError):
            await loops.run(failing, lambda: None)

    run(main)


@pytest.mark.parametrize("loops", [NodeLoops, OwnThread])
def test_who_is_cancelled_stops_the_node_and_leaves_no_thread(loops: type[NodeLoops]) -> None:
    async def main() -> None:
        served = Served(loops())
        task = asyncio.create_task(served.loops.run(served.main, served.stop))
        await asyncio.wait_for(served.began.wait(), TIMEOUT_S)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, TIMEOUT_S)
        assert "pykraft-node" not in {thread.name for thread in threading.enumerate()}
        if loops is OwnThread:
            served.loops.to_node(served.tell, 1)  # nobody is there any more
            assert served.told == []

    run(main)


def test_before_there_is_a_thread_calls_go_nowhere() -> None:
    loops = OwnThread()
    loops.to_node(pytest.fail, "called")
    loops.to_application(pytest.fail, "called")
