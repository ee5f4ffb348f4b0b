"""Calls cross between loops in order; a signal ends the block and nothing else: nodes hand over and close."""

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pykraft.client.life import NodeLoops, OwnThread, until_signal
from pykraft.errors import UsageError
from tests.client.nodes import QUICK, TIMEOUT_S, leader_of, quorum, run


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

    def add(self, number: int) -> None:
        self.ran_on.add(asyncio.get_running_loop())
        self.told.append(number)


@pytest.mark.parametrize(("loops", "count"), [(NodeLoops, 1), (OwnThread, 2)])
async def test_calls_arrive_in_order_on_the_nodes_loop(loops: type[NodeLoops], count: int) -> None:
    served = Served(loops())
    task = asyncio.create_task(served.loops.run(served.main, served.stop))
    await asyncio.wait_for(served.began.wait(), TIMEOUT_S)
    for number in range(1_000):
        served.loops.to_node(served.add, number)
    served.loops.to_node(served.stop)
    await asyncio.wait_for(task, TIMEOUT_S)
    assert served.told == [*range(1_000)]
    assert len({*served.ran_on, asyncio.get_running_loop()}) == count


async def test_calls_that_come_while_others_are_carried_out_come_next() -> None:
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


@pytest.mark.parametrize("loops", [NodeLoops(), OwnThread()])
async def test_what_main_raises_comes_back(loops: NodeLoops) -> None:
    async def failing() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await loops.run(failing, lambda: None)


@pytest.mark.parametrize("loops", [NodeLoops, OwnThread])
async def test_who_is_cancelled_stops_the_node_and_leaves_no_thread(loops: type[NodeLoops]) -> None:
    served = Served(loops())
    task = asyncio.create_task(served.loops.run(served.main, served.stop))
    await asyncio.wait_for(served.began.wait(), TIMEOUT_S)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, TIMEOUT_S)
    assert "pykraft-node" not in {thread.name for thread in threading.enumerate()}
    if loops is OwnThread:
        served.loops.to_node(served.add, 1)  # nobody is there any more
        assert served.told == []


def test_before_there_is_a_thread_calls_go_nowhere() -> None:
    loops = OwnThread()
    loops.to_node(pytest.fail, "called")
    loops.to_application(pytest.fail, "called")


PATIENT = replace(QUICK, election_timeout_ms=1_000, fetch_timeout_ms=60_000, election_backoff_max_ms=500)


async def turn() -> None:
    """One turn of the loop, in which a cancellation would come."""
    loop = asyncio.get_running_loop()
    turned = loop.create_future()
    loop.call_soon(turned.set_result, None)
    await turned


def get(number: int = signal.SIGTERM) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_a_signal_ends_the_block_and_the_handlers_before_are_back(number: signal.Signals) -> None:
    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    async with until_signal():
        get(number)
        await asyncio.get_running_loop().create_future()
    assert {each: signal.getsignal(each) for each in before} == before
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    await turn()


async def test_a_block_without_a_signal_ends_by_itself() -> None:
    async with until_signal():
        pass
    with pytest.raises(ZeroDivisionError):
        async with until_signal():
            raise ZeroDivisionError


async def test_a_block_that_ends_with_the_signal_is_not_cancelled_later(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    ends: list[Callable[[], None]] = []
    monkeypatch.setattr(loop, "add_signal_handler", lambda _, end: ends.append(end))
    async with until_signal():
        ends[0]()
    await turn()


@pytest.mark.parametrize("with_signal", [False, True])
async def test_a_cancellation_from_elsewhere_goes_on(with_signal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = asyncio.Event()
    ends: list[Callable[[], None]] = []
    monkeypatch.setattr(asyncio.get_running_loop(), "add_signal_handler", lambda _, end: ends.append(end))

    async def body() -> None:
        async with until_signal():
            inside.set()
            await asyncio.get_running_loop().create_future()

    task = asyncio.create_task(body())
    await inside.wait()
    if with_signal:
        ends[0]()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_leader_that_gets_sigterm_hands_over(tmp_path: Path) -> None:
    """Without a hand-over nobody would campaign within the test's time."""
    async with quorum(tmp_path, raft=PATIENT) as nodes:
        leader = await leader_of(nodes)

        async def program() -> None:
            async with until_signal(), leader:
                inside.set()
                while True:
                    await leader.propose(["a"])

        inside = asyncio.Event()
        task = asyncio.create_task(program())
        await inside.wait()
        get()
        await task
        others = [node for node in nodes if node is not leader]
        assert await leader_of(others) in others


def test_a_signal_that_is_ignored_stays_so() -> None:
    async def main() -> None:
        async with until_signal():
            get(signal.SIGHUP)
            await turn()
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN

    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        run(main)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_another_thread_cannot_use_it() -> None:
    errors: list[BaseException] = []

    async def main() -> None:
        try:
            async with until_signal():
                pass
        except UsageError as error:
            errors.append(error)

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    thread.join()
    assert [str(error) for error in errors] == ["until_signal() works only in the main thread of the program"]
