"""The outcome of an append when its node ends: in the log, not in the log, or unknown; the caller can tell."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pykraft.client import Node, text_serde
from pykraft.client.life import Life
from pykraft.errors import NotLeaderError, NotRunningError, OutcomeUnknownError, StorageError
from pykraft.host.host import Host
from pykraft.server.clock import now
from tests.client.nodes import BOTH, TIMEOUT_S, Recorder, alone, leader_of, quorum, run
from tests.server.nodes import StallingFs


@BOTH
def test_a_disk_that_fails_ends_the_node_and_every_call(
    tmp_path: Path, own_thread: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    fs = StallingFs()
    monkeypatch.setattr("pykraft.server.driver.OsFs", lambda: fs)

    async def main() -> None:
        node = Node(alone(tmp_path), text_serde, own_thread=own_thread)
        await node.initialize()
        await node.wait_for_leader()
        await node.propose(["a"])
        fs.fails = True
        with pytest.raises(OutcomeUnknownError, match="the node ended before 1 record at offset 2") as raised:
            await node.propose(["b"])
        assert (raised.value.base_offset, raised.value.count) == (2, 1)
        assert isinstance(raised.value.__cause__, StorageError)
        with pytest.raises(StorageError, match="input/output error"):
            await node.wait_closed()
        with pytest.raises(NotRunningError, match=r"failed: .*input/output error"):
            await node.propose(["c"])

    run(main)


@BOTH
def test_a_disk_that_stalls_leaves_no_call_waiting(
    tmp_path: Path, own_thread: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    fs = StallingFs()
    monkeypatch.setattr("pykraft.server.driver.OsFs", lambda: fs)
    monkeypatch.setattr("pykraft.server.driver.LANE_STOP_TIMEOUT_S", 0.05)

    async def main() -> None:
        node = Node(alone(tmp_path), text_serde, own_thread=own_thread)
        await node.initialize()
        await node.wait_for_leader()
        await node.propose(["a"])
        fs.gate.clear()
        waiting = asyncio.create_task(node.propose(["b"]))
        await asyncio.wait_for(asyncio.to_thread(fs.is_stalled.wait, TIMEOUT_S), TIMEOUT_S)
        await node.close()
        with pytest.raises(OutcomeUnknownError, match="the node ended before"):
            await waiting
        fs.gate.set()
        with pytest.raises(NotRunningError, match="has ended"):
            await node.propose(["c"])

    run(main)


@BOTH
def test_what_was_only_taken_is_not_in_the_log_when_the_node_ends(tmp_path: Path, own_thread: bool) -> None:
    """1. The append is prepared only, so no batch is made of it; 2. the node ends."""

    async def main() -> None:
        node = Node(alone(tmp_path), text_serde, own_thread=own_thread)
        await node.initialize()
        leader = await node.wait_for_leader()
        await node.propose(["a"])
        outcomes: list[object] = []
        node.call_host(
            lambda host: host.propose(
                [b"b"], epoch=leader.epoch, now=now(), on_outcome=outcomes.append, is_prepared=True
            )
        )
        await node.close()
        assert [type(outcome).__name__ for outcome in outcomes] == ["Rejected"]
        again = Node(alone(tmp_path), text_serde)
        recorder = Recorder()
        again.register(recorder)
        async with again:
            await again.wait_for_leader()
            await again.propose(["c"])
            await recorder.sees("a", "c")

    run(main)


@BOTH
def test_a_leadership_that_is_lost_leaves_the_outcome_open(tmp_path: Path, own_thread: bool) -> None:
    async def main() -> None:
        async with quorum(tmp_path, 3, own_thread=own_thread) as nodes:
            leader = await leader_of(nodes)
            for node in nodes:
                if node is not leader:
                    await node.close()
            with pytest.raises(OutcomeUnknownError, match="the leadership of epoch") as raised:
                await leader.propose(["a"])
            assert raised.value.__cause__ is None
            assert raised.value.base_offset is not None
            with pytest.raises(NotLeaderError):
                await leader.propose(["b"])

    run(main)


@BOTH
def test_a_call_that_the_host_got_and_nobody_answered_is_in_doubt(tmp_path: Path, own_thread: bool) -> None:
    """Producers answer at the end; a transfer, a frozen snapshot, or a bug may leave a call open."""

    async def main() -> None:
        node = Node(alone(tmp_path), text_serde, own_thread=own_thread)
        await node.initialize()
        await node.wait_for_leader()
        got = asyncio.Event()

        def forget(host: Host, answer: object) -> None:
            del host, answer
            node.loops.to_application(got.set)

        life: Life = node._life
        in_doubt: asyncio.Task[None] = asyncio.create_task(life.ask(forget, doubt="it may be done"))
        waiting: asyncio.Task[None] = asyncio.create_task(life.ask(forget))
        await asyncio.wait_for(got.wait(), TIMEOUT_S)
        await node.close()
        with pytest.raises(OutcomeUnknownError, match="the node ended before it answered: it may be done"):
            await in_doubt
        with pytest.raises(NotRunningError):
            await waiting

    run(main)
