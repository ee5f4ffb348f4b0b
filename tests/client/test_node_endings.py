"""How an embedded node ends when something fails: who gets which error, and in what order."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pykraft.client import LeaderAndEpoch, Node, int_serde, text_serde
from pykraft.errors import NotRunningError
from tests.client.nodes import BOTH, TIMEOUT_S, Recorder, alone, run


class Odd:
    """Raises where it is told to."""

    def __init__(self, where: str) -> None:
        self.where = where

    async def handle_commit(self, reader: object) -> None:
        if self.where == "commit":
            raise ValueError("the application is at a loss")

    def handle_leader_change(self, leader: object) -> None:
        if self.where == "leader":
            raise ValueError("the application is at a loss")


@BOTH
@pytest.mark.parametrize("where", ["commit", "leader"])
def test_a_listener_that_raises_ends_the_node_with_its_story(tmp_path: Path, own_thread: bool, where: str) -> None:
    async def main() -> None:
        node = Node(alone(tmp_path), text_serde, own_thread=own_thread)
        node.register(Odd(where))
        with pytest.raises(ValueError, match="at a loss") as raised:
            async with node:
                await asyncio.get_running_loop().create_future()
        assert "Odd" in raised.value.__notes__[0]
        assert f"handle_{'commit' if where == 'commit' else 'leader_change'}, given" in raised.value.__notes__[0]
        with pytest.raises(NotRunningError, match="failed: the application is at a loss") as late:
            await node.propose(["a"])
        assert late.value.__cause__ is raised.value
        for ending in (node.wait_closed, node.close, node.shutdown):
            with pytest.raises(ValueError, match="at a loss"):
                await ending()

    run(main)


@BOTH
def test_a_record_that_cannot_be_read_ends_the_node_with_its_offset(tmp_path: Path, own_thread: bool) -> None:
    async def main() -> None:
        async with Node(alone(tmp_path), text_serde) as node:
            await node.wait_for_leader()
            await node.propose(["not a number"])
        reading = Node(alone(tmp_path), int_serde, own_thread=own_thread)
        reading.register(Recorder())
        with pytest.raises(Exception, match="record at offset 1") as raised:
            async with reading:
                await asyncio.get_running_loop().create_future()
        assert isinstance(raised.value.__cause__, ValueError)

    run(main)


def test_a_block_that_raises_leaves_and_its_error_goes_on(tmp_path: Path) -> None:
    async def main() -> None:
        node = Node(alone(tmp_path), text_serde)
        with pytest.raises(ZeroDivisionError):
            async with node:
                raise ZeroDivisionError
        with pytest.raises(NotRunningError):
            await node.propose(["a"])

    run(main)


def test_a_listener_may_propose_and_may_close_its_own_node(tmp_path: Path) -> None:
    class Last:
        """Answers once, then ends everything."""

        def __init__(self, node: Node[str]) -> None:
            self.node = node
            self.seen: list[str] = []

        async def handle_commit(self, reader: Any) -> None:
            for batch in reader:
                self.seen += batch.records
            if "answer" in self.seen:
                await self.node.shutdown()

        async def handle_leader_change(self, leader: LeaderAndEpoch) -> None:
            await self.node.propose(["answer"], epoch=leader.epoch)

    async def main() -> None:
        node = Node(alone(tmp_path), text_serde)
        last = Last(node)
        node.register(last)
        await node.initialize()
        await node.wait_closed()
        assert last.seen == ["answer"]

    run(main)


def test_a_block_that_had_ended_when_its_node_failed_raises_the_failure_too(tmp_path: Path) -> None:
    async def block() -> None:
        async with Node(alone(tmp_path), text_serde) as node:
            node._life.failure = ValueError("at the last moment")
            node._ended()

    async def main() -> None:
        with pytest.raises(ValueError, match="at the last moment"):
            await block()
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0

    run(main)


def test_a_listener_that_fails_after_the_end_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Late(Recorder):
        """Fails when it may."""

        def __init__(self) -> None:
            super().__init__()
            self.began, self.may_fail = asyncio.Event(), asyncio.Event()

        async def handle_commit(self, reader: Any) -> None:  # type: ignore[override]
            self.began.set()
            await self.may_fail.wait()
            raise ValueError("too late")

    async def main() -> None:
        node = Node(alone(tmp_path), text_serde)
        late = Late()
        node.register(late)
        await node.initialize()
        await asyncio.wait_for(late.began.wait(), TIMEOUT_S)
        leaving = asyncio.create_task(node.shutdown(timeout_ms=20_000))
        await node.wait_closed()
        late.may_fail.set()
        await leaving

    run(main)
    assert "a listener failed after the end of its node" in caplog.text
