"""Which listener calls code runs in: those of its task, and those of the tasks that started it."""

from __future__ import annotations

import asyncio

from pykraft.client.listener_call import ListenerCall, open_calls


class Called:
    """Calls a listener."""

    task: asyncio.Task[None] | None = None


def test_outside_of_calls_there_are_none() -> None:
    assert open_calls() == []


def test_calls_within_calls_are_all_found_until_they_are_done() -> None:
    outer, inner = Called(), Called()
    with ListenerCall(outer):
        with ListenerCall(inner):
            assert [call.owner for call in open_calls()] == [inner, outer]
        assert [call.owner for call in open_calls()] == [outer]
    assert open_calls() == []


def test_a_task_runs_in_the_call_that_began_it_as_long_as_that_is_open() -> None:
    async def look() -> int:
        return len(open_calls())

    async def main() -> None:
        owner = Called()
        with ListenerCall(owner):
            within = asyncio.create_task(look())
            assert await within == 1
            left_running = asyncio.create_task(look())
        assert await left_running == 0

    asyncio.run(main())
