"""How an embedded node ends when something fails: who gets which error, and in what order."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pykraft import errors
from pykraft.client import Admin, LeaderAndEpoch, Node, int_serde, text_serde
from pykraft.client.life import Life
from pykraft.host.host import Host
from pykraft.server.clock import now
from tests.client.nodes import BOTH, QUICK, TIMEOUT_S, Recorder, alone, config_of, leader_of, quorum
from tests.server.nodes import StallingFs


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
async def test_a_listener_that_raises_ends_the_node_with_its_story(
    tmp_path: Path, own_thread: bool, where: str
) -> None:
    node = Node(alone(tmp_path), text_serde, own_thread=own_thread)
    node.register(Odd(where))
    with pytest.raises(ValueError, match="at a loss") as raised:
        async with node:
            await asyncio.get_running_loop().create_future()
    assert "Odd" in raised.value.__notes__[0]
    assert f"handle_{'commit' if where == 'commit' else 'leader_change'}, given" in raised.value.__notes__[0]
    with pytest.raises(errors.NotRunningError, match="failed: the application is at a loss") as late:
        await node.propose(["a"])
    assert late.value.__cause__ is raised.value
    for ending in (node.wait_closed, node.close, node.shutdown):
        with pytest.raises(ValueError, match="at a loss"):
            await ending()


@BOTH
async def test_a_record_that_cannot_be_read_ends_the_node_with_its_offset(tmp_path: Path, own_thread: bool) -> None:
    async with Node(alone(tmp_path), text_serde) as node:
        await node.wait_for_leader()
        await node.propose(["not a number"])
    reading = Node(alone(tmp_path), int_serde, own_thread=own_thread)
    reading.register(Recorder())
    with pytest.raises(Exception, match="record at offset 1") as raised:
        async with reading:
            await asyncio.get_running_loop().create_future()
    assert isinstance(raised.value.__cause__, ValueError)


async def test_a_block_that_raises_leaves_and_its_error_goes_on(tmp_path: Path) -> None:
    node = Node(alone(tmp_path), text_serde)
    with pytest.raises(ZeroDivisionError):
        async with node:
            raise ZeroDivisionError
    with pytest.raises(errors.NotRunningError):
        await node.propose(["a"])


async def test_a_listener_may_propose_and_may_close_its_own_node(tmp_path: Path) -> None:
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

    node = Node(alone(tmp_path), text_serde)
    last = Last(node)
    node.register(last)
    await node.initialize()
    await node.wait_closed()
    assert last.seen == ["answer"]


async def test_a_block_that_had_ended_when_its_node_failed_raises_the_failure_too(tmp_path: Path) -> None:
    async def block() -> None:
        async with Node(alone(tmp_path), text_serde) as node:
            node._life.failure = ValueError("at the last moment")
            node._ended()

    with pytest.raises(ValueError, match="at the last moment"):
        await block()
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_a_listener_that_fails_after_the_end_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Late(Recorder):
        """Fails when it may."""

        def __init__(self) -> None:
            super().__init__()
            self.began, self.may_fail = asyncio.Event(), asyncio.Event()

        async def handle_commit(self, reader: Any) -> None:  # type: ignore[override]
            self.began.set()
            await self.may_fail.wait()
            raise ValueError("too late")

    node = Node(alone(tmp_path), text_serde)
    late = Late()
    node.register(late)
    await node.initialize()
    await asyncio.wait_for(late.began.wait(), TIMEOUT_S)
    leaving = asyncio.create_task(node.shutdown(timeout_ms=20_000))
    await node.wait_closed()
    late.may_fail.set()
    await leaving
    assert "a listener failed after the end of its node" in caplog.text


PATIENT = replace(QUICK, election_timeout_ms=1_000, fetch_timeout_ms=10_000, election_backoff_max_ms=10_000)
"""Nobody else campaigns because something is slow."""


@BOTH
async def test_a_voter_of_ones_choice_leads(tmp_path: Path, own_thread: bool) -> None:
    async with quorum(tmp_path, 5, own_thread=own_thread, raft=PATIENT) as nodes:
        leader = await leader_of(nodes)
        await leader.propose(["a"])
        for target in nodes:
            if target.node_id is None or target is leader:
                continue
            await leader.transfer_leadership(target.node_id, timeout_ms=10_000)
            assert leader.leader_and_epoch.leader_id == target.node_id
            assert await leader_of(nodes) is target
            leader = target
        assert (await leader.propose(["b"])).count == 1


async def test_what_is_refused(tmp_path: Path) -> None:
    async with quorum(tmp_path) as nodes:
        leader = await leader_of(nodes)
        follower = next(node for node in nodes if node is not leader)
        assert leader.node_id is not None
        assert follower.node_id is not None
        with pytest.raises(errors.NotLeaderError, match=f"the leader is node {leader.node_id}"):
            await follower.transfer_leadership(follower.node_id)
        for wrong, code in (
            (leader.node_id, errors.ErrorCode.ELECTION_NOT_NEEDED),
            (9, errors.ErrorCode.VOTER_NOT_FOUND),
        ):
            with pytest.raises(errors.RefusedError) as refused:
                await leader.transfer_leadership(wrong)
            assert refused.value.code == code
        for to, timeout_ms in ((-1, 100), (follower.node_id, -1), (follower.node_id, 60_001)):
            with pytest.raises(errors.UsageError, match="it is a whole number from"):
                await leader.transfer_leadership(to, timeout_ms=timeout_ms)


async def test_a_target_that_is_down_leaves_the_leader_where_it_is(tmp_path: Path) -> None:
    async with quorum(tmp_path, raft=PATIENT) as nodes:
        leader = await leader_of(nodes)
        target = next(node for node in nodes if node is not leader)
        assert target.node_id is not None
        await target.close()
        with pytest.raises(errors.RefusedError, match="has not fetched since: is it running"):
            await leader.transfer_leadership(target.node_id, timeout_ms=50)
        assert (await leader.propose(["a"])).count == 1


async def test_an_operator_can_do_it_too(tmp_path: Path) -> None:
    async with quorum(tmp_path, raft=PATIENT) as nodes, Admin([node.endpoint for node in nodes]) as admin:
        leader = await leader_of(nodes)
        target = next(node for node in nodes if node is not leader)
        assert target.node_id is not None
        epoch = await admin.transfer_leadership(target.node_id, timeout_ms=10_000)
        assert await leader_of(nodes) is target
        assert target.leader_and_epoch.epoch == epoch
        with pytest.raises(errors.RefusedError, match="already leads"):
            await admin.transfer_leadership(target.node_id)


async def test_a_node_that_does_not_run_has_nothing_to_give(tmp_path: Path) -> None:
    with pytest.raises(errors.NotRunningError):
        await Node(config_of(tmp_path)).transfer_leadership(2)


@BOTH
async def test_a_disk_that_fails_ends_the_node_and_every_call(
    tmp_path: Path, own_thread: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    fs = StallingFs()
    monkeypatch.setattr("pykraft.server.driver.OsFs", lambda: fs)

    node = Node(alone(tmp_path), text_serde, own_thread=own_thread)
    await node.initialize()
    await node.wait_for_leader()
    await node.propose(["a"])
    fs.fails = True
    with pytest.raises(errors.OutcomeUnknownError, match="the node ended before 1 record at offset 2") as raised:
        await node.propose(["b"])
    assert (raised.value.base_offset, raised.value.count) == (2, 1)
    assert isinstance(raised.value.__cause__, errors.StorageError)
    with pytest.raises(errors.StorageError, match="input/output error"):
        await node.wait_closed()
    with pytest.raises(errors.NotRunningError, match=r"failed: .*input/output error"):
        await node.propose(["c"])


@BOTH
async def test_a_disk_that_stalls_leaves_no_call_waiting(
    tmp_path: Path, own_thread: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    fs = StallingFs()
    monkeypatch.setattr("pykraft.server.driver.OsFs", lambda: fs)
    monkeypatch.setattr("pykraft.server.driver.LANE_STOP_TIMEOUT_S", 0.05)

    node = Node(alone(tmp_path), text_serde, own_thread=own_thread)
    await node.initialize()
    await node.wait_for_leader()
    await node.propose(["a"])
    fs.gate.clear()
    waiting = asyncio.create_task(node.propose(["b"]))
    await asyncio.wait_for(asyncio.to_thread(fs.is_stalled.wait, TIMEOUT_S), TIMEOUT_S)
    await node.close()
    with pytest.raises(errors.OutcomeUnknownError, match="the node ended before"):
        await waiting
    fs.gate.set()
    with pytest.raises(errors.NotRunningError, match="has ended"):
        await node.propose(["c"])


@BOTH
async def test_what_was_only_taken_is_not_in_the_log_when_the_node_ends(tmp_path: Path, own_thread: bool) -> None:
    """1. The append is prepared only, so no batch is made of it; 2. the node ends."""
    node = Node(alone(tmp_path), text_serde, own_thread=own_thread)
    await node.initialize()
    leader = await node.wait_for_leader()
    await node.propose(["a"])
    outcomes: list[object] = []
    node.call_host(
        lambda host: host.propose([b"b"], epoch=leader.epoch, now=now(), on_outcome=outcomes.append, is_prepared=True)
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


@BOTH
async def test_a_call_that_the_host_got_and_nobody_answered_is_in_doubt(tmp_path: Path, own_thread: bool) -> None:
    """Producers answer at the end; a transfer, a frozen snapshot, or a bug may leave a call open."""
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
    with pytest.raises(errors.OutcomeUnknownError, match="the node ended before it answered: it may be done"):
        await in_doubt
    with pytest.raises(errors.NotRunningError):
        await waiting
