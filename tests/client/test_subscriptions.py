"""Listeners come and go: registered once, from the start or an offset, and never in two calls at a time."""

import asyncio
from pathlib import Path

import pytest

from pykraft.client import LeaderAndEpoch, Node, text_serde
from pykraft.errors import UsageError
from tests.client.nodes import BOTH, Gated, Recorder, alone


def node_of(folder: Path, own_thread: bool) -> Node[str]:
    return Node(alone(folder), text_serde, own_thread=own_thread)


@pytest.mark.conformance("H42")
@BOTH
async def test_each_listener_has_its_own_progress(tmp_path: Path, own_thread: bool) -> None:
    async with node_of(tmp_path, own_thread) as node:
        slow, quick = Gated(), Recorder()
        node.register(slow)
        node.register(quick)
        await node.wait_for_leader()
        for at in range(20):
            await node.propose([f"{at}"])
        await quick.sees(*(f"{at}" for at in range(20)))
        assert slow.records == []
        slow.may_go_on.set()
        await slow.sees(*(f"{at}" for at in range(20)))
        assert [base for base, _ in slow.offsets] == [*range(21)]


@pytest.mark.conformance(52)
@BOTH
async def test_one_that_comes_late_is_given_everything_then_the_leader(tmp_path: Path, own_thread: bool) -> None:
    async with node_of(tmp_path, own_thread) as node:
        leader = await node.wait_for_leader()
        await node.propose(["a", "b"])
        late = Recorder()
        node.register(late)
        await late.sees("a", "b")
        await late.wait_for(lambda: late.leaders == [leader])


@pytest.mark.conformance(52)
@BOTH
async def test_one_that_comes_again_starts_from_scratch_or_goes_on(tmp_path: Path, own_thread: bool) -> None:
    async with node_of(tmp_path, own_thread) as node:
        await node.wait_for_leader()
        await node.propose(["a", "b", "c"])
        recorder = Recorder()
        node.register(recorder)
        await recorder.sees("a", "b", "c")
        node.unregister(recorder)
        await node.propose(["d"])
        node.register(recorder)
        await recorder.sees("a", "b", "c", "a", "b", "c", "d")
        going_on = Recorder()
        node.register(going_on, from_offset=2)
        await going_on.sees("b", "c", "d")
        assert going_on.offsets[0] == (2, 3)
        ahead = Recorder()
        node.register(ahead, from_offset=6)
        await node.propose(["e"])
        await node.propose(["f"])
        await ahead.sees("f")


def test_wrong_ways_to_register(tmp_path: Path) -> None:
    node = node_of(tmp_path, own_thread=False)
    recorder = Recorder()
    with pytest.raises(UsageError, match="not a listener: it has no method handle_commit"):
        node.register(print)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="from_offset = -1: it is a whole number from 0"):
        node.register(recorder, from_offset=-1)
    with pytest.raises(UsageError, match="is not registered"):
        node.unregister(recorder)
    node.register(recorder)
    with pytest.raises(UsageError, match="is already registered"):
        node.register(recorder)
    node.unregister(recorder)
    node.register(recorder)


@BOTH
async def test_who_was_unregistered_is_called_no_more(tmp_path: Path, own_thread: bool) -> None:
    async with node_of(tmp_path, own_thread) as node:
        await node.wait_for_leader()
        gone, there = Recorder(), Recorder()
        node.register(gone)
        node.unregister(gone)
        node.register(there)
        await node.propose(["a"])
        await there.sees("a")
        assert (gone.records, gone.leaders) == ([], [])


@BOTH
async def test_connections_during_a_start_are_handled_as_later_ones(tmp_path: Path, own_thread: bool) -> None:
    node = node_of(tmp_path, own_thread)
    gone, late = Recorder(), Recorder()
    node.register(gone)
    beginning = asyncio.create_task(node.initialize())
    await asyncio.wait([beginning], timeout=0)
    node.unregister(gone)
    node.register(late)
    await beginning
    async with node:
        await node.wait_for_leader()
        await node.propose(["a"])
        await late.sees("a")
        assert gone.records == []


async def test_a_listener_whose_own_task_was_cancelled_is_a_fault(tmp_path: Path) -> None:
    class Cancelled(Recorder):
        async def handle_leader_change(self, leader_and_epoch: LeaderAndEpoch) -> None:  # type: ignore[override]
            inner = asyncio.ensure_future(asyncio.get_running_loop().create_future())
            inner.cancel()
            await inner

    node = node_of(tmp_path, own_thread=False)
    node.register(Cancelled())
    await node.initialize()
    with pytest.raises(UsageError, match="call was cancelled"):
        await node.wait_closed()
