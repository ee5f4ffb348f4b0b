"""A signal ends the block and nothing else: nodes hand over and close, and the program continues."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pykraft.client import until_signal
from pykraft.errors import UsageError
from tests.client.nodes import QUICK, leader_of, quorum, run

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
def test_a_signal_ends_the_block_and_the_handlers_before_are_back(number: signal.Signals) -> None:
    async def main() -> None:
        before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
        async with until_signal():
            get(number)
            await asyncio.get_running_loop().create_future()
        assert {each: signal.getsignal(each) for each in before} == before
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        await turn()

    run(main)


def test_a_block_without_a_signal_ends_by_itself() -> None:
    async def main() -> None:
        async with until_signal():
            pass
        with pytest.raises(ZeroDivisionError):
            async with until_signal():
                raise ZeroDivisionError

    run(main)


def test_a_block_that_ends_with_the_signal_is_not_cancelled_later(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        ends: list[Callable[[], None]] = []
        monkeypatch.setattr(loop, "add_signal_handler", lambda _, end: ends.append(end))
        async with until_signal():
            ends[0]()
        await turn()

    run(main)


@pytest.mark.parametrize("with_signal", [False, True])
def test_a_cancellation_from_elsewhere_goes_on(with_signal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
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

    run(main)


def test_a_leader_that_gets_sigterm_hands_over(tmp_path: Path) -> None:
    """Without a hand-over nobody would campaign within the test's time."""

    async def main() -> None:
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

    run(main)


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
