"""An embedded node over real sockets and files: appending, leading, leaving, and every call at the wrong time."""

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pykraft import errors
from pykraft.client import Committed, LeaderAndEpoch, Node, text_serde
from pykraft.types import Epoch, LeaderChange, NodeId
from tests.client.nodes import BOTH, QUICK, TIMEOUT_S, Recorder, alone, config_of, leader_of, quorum


@pytest.mark.conformance("H22")
@BOTH
async def test_one_node_commits_and_tells(tmp_path: Path, own_thread: bool) -> None:
    recorder = Recorder()
    node = Node(alone(tmp_path), text_serde, own_thread=own_thread)
    node.register(recorder)
    async with node:
        leader = await node.wait_for_leader()
        assert leader == node.leader_and_epoch == LeaderAndEpoch(NodeId(1), Epoch(1))
        assert await node.propose(["a", "b"]) == Committed(base_offset=1, epoch=1, count=2)  # type: ignore[arg-type]
        await recorder.sees("a", "b")
        assert recorder.offsets[-1] == (1, 2)
        await recorder.wait_for(lambda: recorder.leaders[-1] == leader)
        assert isinstance(recorder.control[0], LeaderChange)
        assert (node.high_watermark, node.log_end_offset, node.kraft_version) == (3, 3, 0)
        assert recorder.threads == {asyncio.get_running_loop()}
    assert recorder.goodbyes == 1
    assert node.leader_and_epoch == LeaderAndEpoch(None, Epoch(1))


@pytest.mark.conformance("H21")
@BOTH
async def test_three_nodes_agree(tmp_path: Path, own_thread: bool) -> None:
    async with quorum(tmp_path, own_thread=own_thread) as nodes:
        recorders = [Recorder() for _ in nodes]
        for node, recorder in zip(nodes, recorders, strict=True):
            node.register(recorder)
        leader = await leader_of(nodes)
        await asyncio.gather(*(leader.propose([f"{at}"]) for at in range(50)))
        for recorder in recorders:
            await recorder.sees(*(f"{at}" for at in range(50)))
        follower = next(node for node in nodes if node is not leader)
        with pytest.raises(errors.NotLeaderError) as raised:
            await follower.propose(["x"])
        assert raised.value.leader_id == leader.node_id
        assert leader.node_id is not None
        assert follower.voter_node(leader.node_id) == leader.endpoint
        assert follower.voter_node(leader.node_id, "OTHER") is None
        assert follower.voter_node(9) is None
        assert leader.latest_voter_set == follower.latest_voter_set
        assert set(leader.latest_voter_set.ids) == {one.node_id for one in nodes}


@BOTH
async def test_a_node_tells_what_it_measures(tmp_path: Path, own_thread: bool) -> None:
    async with Node(alone(tmp_path), text_serde, own_thread=own_thread) as node:
        await node.wait_for_leader()
        await node.propose(["a"])
        measured = await node.metrics()
        assert (measured["current-state"], measured["high-watermark"]) == ("leader", 2)
        assert "event-loop-lag-ms" in measured
    with pytest.raises(errors.NotRunningError):
        await node.metrics()


@pytest.mark.conformance("H46")
async def test_a_program_without_a_serde_appends_bytes(tmp_path: Path) -> None:
    recorder = Recorder()
    async with Node(alone(tmp_path)) as node:
        node.register(recorder)
        await node.wait_for_leader()
        await node.propose([b"\xff"])
        await recorder.sees(b"\xff")


@pytest.mark.conformance("H47")
@BOTH
async def test_what_is_prepared_is_seen_when_it_is_scheduled(tmp_path: Path, own_thread: bool) -> None:
    recorder = Recorder()
    async with Node(alone(tmp_path), text_serde, own_thread=own_thread) as node:
        node.register(recorder)
        epoch = (await node.wait_for_leader()).epoch
        await recorder.wait_for(lambda: recorder.leaders[-1:] == [node.leader_and_epoch])
        assert await node.prepare_append(epoch, ["a", "b"]) == 2
        assert await node.prepare_append(epoch, ["c"]) == 3
        assert node.high_watermark == 1
        await node.schedule_prepared_append()
        await recorder.sees("a", "b", "c")
        assert await node.schedule_append(epoch, ["d"]) == 4
        await recorder.sees("a", "b", "c", "d")


@pytest.mark.conformance(9)
@BOTH
async def test_appends_that_cannot_be(tmp_path: Path, own_thread: bool) -> None:
    raft = replace(QUICK, batch_size_bytes_max=1_024)

    async with Node(alone(tmp_path, raft=raft), text_serde, own_thread=own_thread) as node:
        epoch = (await node.wait_for_leader()).epoch
        appends: list[Callable[..., Awaitable[object]]] = [
            node.prepare_append,
            node.schedule_append,
            lambda epoch, records: node.propose(records, epoch=epoch),
        ]
        for append in appends:
            with pytest.raises(errors.NotLeaderError):
                await append(epoch - 1, ["a"])
            with pytest.raises(errors.UsageError, match="epoch 2 has not begun"):
                await append(epoch + 1, ["a"])
            with pytest.raises(errors.UsageError, match="at least one record"):
                await append(epoch, [])
            with pytest.raises(errors.RecordBatchTooLargeError):
                await append(epoch, ["a" * 2_000])
            with pytest.raises(UnicodeEncodeError):
                await append(epoch, ["a", "\ud800"])
        with pytest.raises(errors.BufferFullError):
            await asyncio.gather(*(node.prepare_append(epoch, ["a" * 900]) for _ in range(20)))
        assert node.log_end_offset == 1
        assert node.leader_and_epoch.is_leader(1)


@BOTH
async def test_a_wait_that_is_cancelled_does_not_take_the_record_back(tmp_path: Path, own_thread: bool) -> None:
    recorder = Recorder()
    async with Node(alone(tmp_path, raft=replace(QUICK, append_linger_ms=50)), text_serde) as node:
        node.register(recorder)
        await node.wait_for_leader()
        waiting = asyncio.create_task(node.propose(["a"]))
        await asyncio.wait([waiting], timeout=0.001)
        waiting.cancel()
        await node.propose(["b"])
        await recorder.sees("a", "b")
        assert waiting.cancelled()


@pytest.mark.conformance(12)
@BOTH
async def test_resigning(tmp_path: Path, own_thread: bool) -> None:
    async with quorum(tmp_path, own_thread=own_thread) as nodes:
        leader = await leader_of(nodes)
        epoch = leader.leader_and_epoch.epoch
        follower = next(node for node in nodes if node is not leader)
        for node, wrong in ((leader, epoch + 1), (leader, -1), (follower, epoch)):
            with pytest.raises(errors.UsageError, match=r"has not begun|does not lead"):
                await node.resign(wrong)
        await leader.resign(epoch - 1)
        assert leader.leader_and_epoch == LeaderAndEpoch(leader.node_id, epoch)
        await leader.resign(epoch)
        with pytest.raises(errors.NotLeaderError):
            await leader.propose(["a"], epoch=epoch)
        assert (await leader.wait_for_leader()).epoch > epoch


async def test_a_record_that_is_larger_than_a_request_may_be_costs_nobody_the_leadership(tmp_path: Path) -> None:
    """Followers must read it from their leader's answers: ``socket.request.max.bytes`` is about requests."""
    request_size_bytes_max = 1_000_000

    async with quorum(tmp_path, request_size_bytes_max=request_size_bytes_max) as nodes:
        leader = await leader_of(nodes)
        before = leader.leader_and_epoch
        recorders = [Recorder() for _ in nodes]
        for node, recorder in zip(nodes, recorders, strict=True):
            node.register(recorder)
        record = "x" * (2 * request_size_bytes_max)
        await leader.propose([record])
        await leader.propose(["after it"])
        for recorder in recorders:
            await recorder.sees(record, "after it")
        assert {node.leader_and_epoch for node in nodes} == {before}


@pytest.mark.conformance(44, 45)
@BOTH
async def test_a_leader_that_leaves_hands_over(tmp_path: Path, own_thread: bool) -> None:
    async with quorum(tmp_path, own_thread=own_thread) as nodes:
        leader = await leader_of(nodes)
        rest = [node for node in nodes if node is not leader]
        await leader.shutdown(timeout_ms=10_000)
        await leader.wait_closed()
        heir = await leader_of(rest)
        await asyncio.wait_for(next(node for node in rest if node is not heir).shutdown(), TIMEOUT_S)
        # All other voters refuse connections now, so this one does not wait.
        await asyncio.wait_for(heir.shutdown(timeout_ms=1_000_000), TIMEOUT_S)


@BOTH
async def test_a_leader_whose_heirs_are_silent_leaves_when_its_time_is_over(tmp_path: Path, own_thread: bool) -> None:
    async with quorum(tmp_path, own_thread=own_thread) as nodes:
        leader = await leader_of(nodes)
        rest = [node for node in nodes if node is not leader]
        for node in rest:
            await node.close()
        silent = rest[0].endpoint
        with (
            socket.create_server((silent.host, silent.port)),
            pytest.raises(errors.ShutdownTimeoutError, match="no other node led within 300 ms"),
        ):
            await leader.shutdown(timeout_ms=300)
        assert issubclass(errors.ShutdownTimeoutError, TimeoutError)


@BOTH
async def test_leadership_that_is_lost_after_an_append_leaves_the_outcome_open(
    tmp_path: Path, own_thread: bool
) -> None:
    raft = replace(QUICK, fetch_timeout_ms=400)

    async with quorum(tmp_path, own_thread=own_thread, raft=raft) as nodes:
        leader = await leader_of(nodes)
        for node in nodes:
            if node is not leader:
                await node.close()
        with pytest.raises(errors.OutcomeUnknownError, match="the next leader may still commit them") as raised:
            await leader.propose(["a", "b"])
        assert (raised.value.base_offset, raised.value.count) == (leader.log_end_offset - 2, 2)


@BOTH
async def test_calls_that_wait_end_with_the_node(tmp_path: Path, own_thread: bool) -> None:
    async with quorum(tmp_path, own_thread=own_thread) as nodes:
        leader = await leader_of(nodes)
        others = [node for node in nodes if node is not leader]
        for node in others:
            await node.close()
        waiting = asyncio.create_task(leader.propose(["a"]))
        await asyncio.wait([waiting], timeout=0.05)
        await leader.close()
        with pytest.raises((errors.OutcomeUnknownError, errors.NotRunningError)):
            await waiting
        lonely = Node(config_of(tmp_path, 7), text_serde)
        await lonely.initialize(None if leader.node_id is None else leader._life.config.voters)
        searching = asyncio.create_task(lonely.wait_for_leader())
        await asyncio.wait([searching], timeout=0.05)
        await lonely.close()
        with pytest.raises(errors.NotRunningError, match="has ended"):
            await searching


async def test_before_and_after_its_life_a_node_says_so(tmp_path: Path) -> None:
    node = Node(alone(tmp_path), text_serde)
    assert (node.leader_and_epoch, node.high_watermark, node.node_id) == (LeaderAndEpoch(None, Epoch(0)), None, 1)

    async def each_call(said: str) -> None:
        calls: list[Callable[[], Awaitable[object]]] = [
            lambda: node.propose(["a"]),
            lambda: node.prepare_append(1, ["a"]),
            lambda: node.schedule_append(1, ["a"]),
            node.schedule_prepared_append,
            lambda: node.resign(1),
            node.wait_for_leader,
        ]
        for call in calls:
            with pytest.raises(errors.NotRunningError, match=said):
                await call()

    await each_call("not initialized yet")
    for name in ("log_end_offset", "kraft_version"):
        with pytest.raises(errors.NotRunningError, match="not initialized yet"):
            getattr(node, name)
    async with node:
        with pytest.raises(errors.UsageError, match="initialized once"):
            await node.initialize()
    await each_call("has ended")
    assert node.log_end_offset == 1
    await node.shutdown()
    await node.close()
    await node.wait_closed()
    with pytest.raises(errors.UsageError, match="make a new Node"):
        await node.initialize()
    with pytest.raises(errors.NotRunningError, match="has ended"):
        async with node:
            pass


async def test_a_call_from_another_loop_is_refused_and_a_look_is_not(tmp_path: Path) -> None:
    async with Node(alone(tmp_path), text_serde) as node:
        await node.wait_for_leader()
        seen: list[Any] = []

        def elsewhere() -> None:
            seen.append(node.leader_and_epoch)
            try:
                asyncio.run(node.propose(["a"]))
            except errors.UsageError as error:
                seen.append(str(error))
            seen.append(asyncio.run_coroutine_threadsafe(node.propose(["b"]), loop).result(TIMEOUT_S).count)

        loop = asyncio.get_running_loop()
        await asyncio.to_thread(elsewhere)
        assert seen[0].is_leader(1)
        assert "run_coroutine_threadsafe" in seen[1]
        assert seen[2] == 1


@pytest.mark.conformance(53, "H20")
async def test_a_node_without_an_id_sees_everything(tmp_path: Path) -> None:
    async with quorum(tmp_path, 1) as [voter]:
        await voter.wait_for_leader()
        await voter.propose(["a"])
        recorder = Recorder()
        watcher = Node(config_of(tmp_path, None), text_serde)
        watcher.register(recorder)
        await watcher.initialize(voter._life.config.voters)
        async with watcher:
            await voter.propose(["b"])
            await recorder.sees("a", "b")
            assert (watcher.node_id, list(watcher.listeners)) == (None, [])
            assert (await watcher.wait_for_leader()).leader_id == 1
            await recorder.wait_for(lambda: recorder.leaders[-1].leader_id == 1)
            with pytest.raises(errors.UsageError, match="without an id"):
                await watcher.resign(1)
            with pytest.raises(errors.UsageError, match="has no address"):
                _ = watcher.endpoint
            with pytest.raises(errors.NotLeaderError):
                await watcher.propose(["c"])


async def test_a_program_that_stalls_keeps_its_leadership_in_a_thread_of_its_own(tmp_path: Path) -> None:
    raft = replace(QUICK, fetch_timeout_ms=300)

    async with quorum(tmp_path, own_thread=True, raft=raft) as nodes:
        leader = await leader_of(nodes)
        before = leader.leader_and_epoch
        threading.Event().wait(4 * raft.fetch_timeout_ms / 1_000)  # the application's loop stands still
        assert leader.leader_and_epoch == before
        assert (await leader.propose(["a"])).epoch == before.epoch
