"""What is noted of the calls that a program makes: reads that may be out of date are not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from pykraft.errors import NotAppliedError
from pykraft.machine import Replicated
from pykraft.machine.testing.judge import CallVerdict
from pykraft.machine.testing.recorded import CallHistory, RecordedNode
from pykraft.machine.testing.reference import Numbered, Reference, WatchedMachine
from pykraft.sim.machine.clock import Clock
from tests.machine.counters import Add, Counters


class Node:
    """Answers each command with its number, and counts the reads."""

    def __init__(self) -> None:
        self.machine: WatchedMachine[Any, Any] = WatchedMachine(Counters(), Reference(), 1)
        self.node = object()
        self.reads: list[dict[str, Any]] = []

    async def execute(self, command: Numbered[Add], *, timeout_ms: int) -> int:
        assert timeout_ms > 0
        return command.number

    @asynccontextmanager
    async def read(self, **named: Any) -> AsyncIterator[WatchedMachine[Any, Any]]:
        self.reads.append(named)
        yield self.machine


def recorded() -> tuple[CallHistory, Node, RecordedNode]:
    history, node = CallHistory(Clock()), Node()
    return history, node, RecordedNode(history, 1, cast("Replicated[WatchedMachine[Any, Any]]", node))


def test_a_command_has_its_number_and_its_answer() -> None:
    history, node, known = recorded()
    assert asyncio.run(known.execute(Add("x", 1))) == 1
    assert asyncio.run(known.execute(Add("x", 1))) == 2
    assert [(call.number, call.answer, call.verdict) for call in history.calls] == [
        (1, "b'1'", CallVerdict.APPLIED),
        (2, "b'2'", CallVerdict.APPLIED),
    ]
    assert known.machine is node.machine.machine
    assert known.node is node.node


def test_a_read_is_noted_unless_it_may_be_out_of_date() -> None:
    history, node, known = recorded()

    async def main() -> None:
        async with known.read(stale=True, max_age_ms=5, timeout_ms=70) as state:
            assert state is node.machine.machine
        assert not history.calls
        async with known.read(timeout_ms=80) as state:
            assert state is node.machine.machine
            raise NotAppliedError("another call of the program, after the read")

    with pytest.raises(NotAppliedError):
        asyncio.run(main())
    assert node.reads == [{"stale": True, "max_age_ms": 5, "timeout_ms": 70}, {"timeout_ms": 80}]
    [call] = history.calls
    assert (call.verdict, call.position, call.is_read) == (CallVerdict.APPLIED, 0, True)


def test_a_cancelled_call_stays_open() -> None:
    history, node, known = recorded()

    async def main() -> None:
        async def never(*_: object, **__: object) -> None:
            await asyncio.get_running_loop().create_future()

        node.execute = never  # type: ignore[method-assign, assignment]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await known.execute(Add("x", 1))

    asyncio.run(main())
    assert [(call.verdict, call.answered_us) for call in history.calls] == [(CallVerdict.OPEN, None)]
