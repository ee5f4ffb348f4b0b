"""Linearizable reads: a majority confirms the leader, once for all that wait, or the read fails in time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from pykraft.client import configure
from pykraft.errors import NotRunningError, QuorumUnavailableError, UsageError
from pykraft.machine import Replicated
from pykraft.types import Offset
from tests.client.nodes import BOTH, QUICK, run
from tests.machine.counters import Add, Counters, Node, leader_of, machines, next_turn


def counted(node: Node, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """When confirmations begin, from now on."""
    ask: Callable[[], Awaitable[Offset]] = node._reads._ask
    begun: list[float] = []

    async def counting() -> Offset:
        begun.append(asyncio.get_running_loop().time())
        return await ask()

    monkeypatch.setattr(node._reads, "_ask", counting)
    return begun


@BOTH
def test_a_read_has_every_command_that_was_answered_before(tmp_path: Path, own_thread: bool) -> None:
    async def main() -> None:
        async with machines(tmp_path, own_thread=own_thread) as nodes:
            leader = await leader_of(nodes)
            for total in range(1, 20):
                await leader.execute(Add("x", 1))
                async with leader.read() as state:
                    assert state.totals == {"x": total}

    run(main)


def test_reads_that_wait_share_a_confirmation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with machines(tmp_path) as nodes:
            leader = await leader_of(nodes)
            await leader.execute(Add("x", 1))
            begun = counted(leader, monkeypatch)

            async def read() -> int:
                async with leader.read() as state:
                    return state.totals["x"]

            first = asyncio.create_task(read())
            await next_turn()
            assert len(begun) == 1
            assert await asyncio.gather(first, *(read() for _ in range(100))) == [1] * 101
            assert len(begun) == 2  # those that came during the first confirmation share the second

    run(main)


def test_the_only_voter_reads_at_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with machines(tmp_path, 1) as [node]:
            await node.execute(Add("x", 1))
            async with node.read(timeout_ms=5_000) as state:
                assert state.totals == {"x": 1}

    run(main)


def test_a_leader_without_a_majority_does_not_answer(tmp_path: Path) -> None:
    async def main() -> None:
        async with machines(tmp_path) as nodes:
            leader = await leader_of(nodes)
            await leader.execute(Add("x", 1))
            for node in nodes:
                if node is not leader:
                    await node.close()
            with pytest.raises(QuorumUnavailableError, match="no leader confirmed within 100 ms"):
                async with leader.read(timeout_ms=100):
                    raise AssertionError("nobody can confirm it")
            async with leader.read(stale=True) as state:
                assert state.totals == {"x": 1}

    run(main)


def test_a_stale_read_asks_nobody_if_it_is_young_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with machines(tmp_path, 1) as [node]:
            await node.execute(Add("x", 1))
            begun = counted(node, monkeypatch)
            for _ in range(3):
                async with node.read(stale=True, max_age_ms=60_000) as state:
                    assert state.totals == {"x": 1}
            assert len(begun) == 1
            async with node.read(stale=True, max_age_ms=0), node.read():
                assert len(begun) == 3

    run(main)


def test_without_a_leader_a_read_says_so(tmp_path: Path) -> None:
    async def main() -> None:
        voters = {1: "127.0.0.1:0", 2: "127.0.0.1:1", 3: "127.0.0.1:2"}
        node = Replicated(configure(tmp_path / "n1", node_id=1, voters=voters, raft=QUICK), Counters())
        await node.initialize()
        with pytest.raises(QuorumUnavailableError, match=r"100 ms .*\(the last try: this node does not lead"):
            async with node.read(timeout_ms=100):
                pass
        async with node.read(stale=True) as state:
            assert state.totals == {}
        waiting = asyncio.create_task(enter(node))
        await next_turn()
        await node.close()
        with pytest.raises(NotRunningError):
            await waiting
        with pytest.raises(NotRunningError):
            await enter(node)

    async def enter(node: Node) -> None:
        async with node.read():
            pass

    run(main)


@pytest.mark.parametrize("wrong", [{"timeout_ms": 0}, {"max_age_ms": 5}, {"stale": True, "max_age_ms": -1}])
def test_wrong_arguments_are_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    async def main() -> None:
        async with machines(tmp_path, 1) as [node]:
            with pytest.raises(UsageError):
                async with node.read(**wrong):
                    pass

    run(main)
