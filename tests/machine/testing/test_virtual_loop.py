"""A loop in virtual time: tasks, timers, clocks of another rate, pauses, and what no task handles."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from pykraft.machine.testing.users import TURNS_MAX, VirtualLoop
from pykraft.sim.machine.clock import Clock, NodeClock


class World:
    """One loop on a clock of its own."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.node_clock = NodeClock(self.clock)
        self.failures: list[dict[str, Any]] = []
        self.loop = VirtualLoop(self.node_clock, self.clock.after, self.failures.append)  # type: ignore[abstract]

    def run(self) -> None:
        while self.clock.advance():
            pass


def test_tasks_and_timers_run_in_virtual_time() -> None:
    world = World()
    seen: list[object] = []

    async def main() -> None:
        rung = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(1.5, rung.set_result, None)
        await rung
        seen.append(asyncio.get_running_loop().time())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2):
                await asyncio.get_running_loop().create_future()
        seen.append(asyncio.get_running_loop().time())

    task = world.loop.create_task(main())
    world.run()
    assert task.done()
    assert seen == [1.5, 3.5]
    assert world.clock.now_us == 3_500_000
    with pytest.raises(RuntimeError):
        asyncio.get_running_loop()  # nothing runs between two turns


def test_a_timer_follows_the_clock_of_its_machine() -> None:
    world = World()
    seen: list[object] = []
    world.loop.call_later(1, lambda: seen.append(world.clock.now_us))
    world.clock.after(500_000, lambda: world.node_clock.go_at(500_000))  # from here on half as fast
    world.run()
    assert seen == [1_500_000]


def test_no_timer_rings_before_its_time() -> None:
    world = World()
    when = 0.264 + 0.3
    assert when > 0.564  # but when * 1,000 is 564
    seen: list[float] = []
    world.loop.call_at(when, lambda: seen.append(world.loop.time()))
    world.run()
    assert seen == [0.565]


def test_a_cancelled_call_does_not_run() -> None:
    world = World()
    seen: list[object] = []
    world.loop.call_soon(seen.append, 1).cancel()
    world.loop.call_later(1, seen.append, 2).cancel()
    world.loop.call_soon(seen.append, 3)
    world.run()
    assert seen == [3]


def test_an_exception_that_nobody_awaits_is_told() -> None:
    world = World()

    async def main() -> None:
        raise ZeroDivisionError

    world.loop.create_task(main()).add_done_callback(lambda _: None)
    world.run()
    world.loop.abandon()
    assert world.loop.is_running()
    assert not world.loop.is_closed()
    world = World()

    def call() -> None:
        raise ZeroDivisionError

    world.loop.call_soon(call)
    with pytest.raises(ZeroDivisionError):
        world.run()


def test_an_abandoned_loop_drops_its_tasks_in_silence() -> None:
    world = World()
    seen: list[object] = []

    async def main() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            seen.append("closed")

    task = world.loop.create_task(main())
    world.run()
    assert not task.done()
    world.loop.abandon()
    del task
    assert seen == ["closed"]
    assert not world.failures


def test_a_loop_that_goes_on_without_waiting_is_told_once() -> None:
    world = World()
    loop = world.loop
    ended: list[bool] = []

    def count(left: int, then: Callable[[], object]) -> None:
        if left:
            loop.call_soon(count, left - 1, then)
        else:
            then()

    def rest() -> None:
        loop.call_later(0.001, count, TURNS_MAX - 10, partial(ended.append, True))

    count(TURNS_MAX - 10, rest)
    world.run()
    assert ended == [True]
    assert world.failures == []
    count(3 * TURNS_MAX, partial(ended.append, False))
    world.run()
    assert [failure["message"] for failure in world.failures] == [
        "10000 turns within a millisecond: a task goes on without waiting"
    ]
