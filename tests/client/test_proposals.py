"""Calls of `propose` in one turn of the loop enter the node together; each has its own outcome."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pykraft.client import Node, text_serde
from pykraft.client.proposals import ALONE_COUNT, CALLS_MAX
from pykraft.config import RaftConfig
from pykraft.errors import BufferFullError, NotLeaderError, NotRunningError, OutcomeUnknownError, UsageError
from pykraft.host import producers
from pykraft.host.host import Host
from pykraft.host.producers import Committed, OutcomeUnknown, ProposalOutcome
from pykraft.types import Epoch, Offset
from tests.client.nodes import BOTH, QUICK, TIMEOUT_S, Recorder, alone, leader_of, quorum


def entered(node: Node[Any], monkeypatch: pytest.MonkeyPatch) -> list[list[bytes]]:
    """The values of each proposal that enters the host from now on."""
    host = node._life.engine.host
    assert host is not None
    seen: list[list[bytes]] = []
    propose: Callable[..., int] = host.propose

    def noting(values: list[bytes], **others: Any) -> int:
        seen.append(list(values))
        return propose(values, **others)

    monkeypatch.setattr(host, "propose", noting)
    return seen


async def leading(node: Node[Any]) -> Node[Any]:
    await node.wait_for_leader()
    return node


@BOTH
async def test_the_calls_of_one_turn_enter_as_one_proposal(
    tmp_path: Path, own_thread: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Node(alone(tmp_path), text_serde, own_thread=own_thread) as node:
        epoch = (await node.wait_for_leader()).epoch
        seen = entered(node, monkeypatch)
        recorder = Recorder()
        node.register(recorder)
        first, *others = await asyncio.gather(node.propose(["a"]), node.propose(["b", "c"]), node.propose(["d"]))
        assert seen == [[b"a", b"b", b"c", b"d"]]
        assert first.epoch == epoch
        at = first.base_offset
        assert [first.end_offset, *others] == [
            at + 1,
            Committed(base_offset=Offset(at + 1), epoch=epoch, count=2),
            Committed(base_offset=Offset(at + 3), epoch=epoch, count=1),
        ]
        await recorder.sees("a", "b", "c", "d")


async def test_a_caller_who_has_been_alone_for_a_while_waits_for_no_turn_and_others_gather_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Node(alone(tmp_path), text_serde) as node:
        await leading(node)
        seen = entered(node, monkeypatch)
        add = node._proposals.add
        for number in range(ALONE_COUNT):
            future = add([b"%d" % number], None)
            assert len(seen) == number, "it waits for the next turn of the loop"
            await future
        first = add([b"first"], None)
        assert seen[ALONE_COUNT:] == [[b"first"]], "it does not"
        others = [add([b"second"], None), add([b"third"], None)]
        assert seen[ALONE_COUNT:] == [[b"first"]]
        ends = [outcome.end_offset for outcome in await asyncio.gather(first, *others)]
        assert seen[ALONE_COUNT:] == [[b"first"], [b"second", b"third"]]
        assert ends == [*range(ends[0], ends[0] + 3)]
        last = add([b"last"], None)
        assert seen[-1] != [b"last"]
        await last


@BOTH
async def test_a_full_group_enters_at_once(tmp_path: Path, own_thread: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Node(alone(tmp_path), text_serde, own_thread=own_thread) as node:
        await leading(node)
        seen = entered(node, monkeypatch)
        count = 2 * CALLS_MAX + 1
        done = await asyncio.gather(*(node.propose([str(number)]) for number in range(count)))
        assert [len(values) for values in seen] == [CALLS_MAX, CALLS_MAX, 1]
        assert [each.base_offset for each in done] == [*range(done[0].base_offset, done[0].base_offset + count)]


@pytest.mark.parametrize(
    "raft", [replace(QUICK, fetch_size_bytes_max=1), replace(QUICK, batch_size_bytes_max=1_024)], ids=["fetch", "batch"]
)
async def test_a_group_is_not_larger_than_a_batch_may_be(
    tmp_path: Path, raft: RaftConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Node(alone(tmp_path, raft=raft), text_serde) as node:
        await leading(node)
        seen = entered(node, monkeypatch)
        await asyncio.gather(*(node.propose([letter * 500]) for letter in "abc"))
        assert [len(values) for values in seen] == [1, 1, 1]


async def test_calls_for_another_epoch_are_another_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Node(alone(tmp_path), text_serde) as node:
        epoch = (await node.wait_for_leader()).epoch
        seen = entered(node, monkeypatch)
        old, future, *good = await asyncio.gather(
            node.propose(["old"], epoch=epoch - 1),
            node.propose(["future"], epoch=epoch + 1),
            node.propose(["b"], epoch=epoch),
            node.propose(["c"], epoch=epoch),
            return_exceptions=True,
        )
        assert isinstance(old, NotLeaderError)
        assert isinstance(future, UsageError)
        assert [type(each) for each in good] == [Committed, Committed]
        assert seen == [[b"old"], [b"future"], [b"b", b"c"]]


@BOTH
async def test_other_calls_follow_the_proposals_before_them(tmp_path: Path, own_thread: bool) -> None:
    async with Node(alone(tmp_path), text_serde, own_thread=own_thread) as node:
        epoch = (await node.wait_for_leader()).epoch
        before, appended, after = await asyncio.gather(
            node.propose(["a"]), node.schedule_append(epoch, ["b"]), node.propose(["c"])
        )
        assert (appended, after.base_offset) == (before.base_offset + 1, before.base_offset + 2)


@BOTH
async def test_a_cancelled_wait_does_not_take_its_records_back(tmp_path: Path, own_thread: bool) -> None:
    async with Node(alone(tmp_path), text_serde, own_thread=own_thread) as node:
        await leading(node)
        recorder = Recorder()
        node.register(recorder)
        gone = asyncio.create_task(node.propose(["a"]))
        other = asyncio.create_task(node.propose(["b"]))
        # Both have proposed by then, and neither has its outcome.
        asyncio.get_running_loop().call_soon(gone.cancel)
        await other
        assert gone.cancelled()
        await recorder.sees("a", "b")


async def test_each_caller_gets_an_error_of_its_own(tmp_path: Path) -> None:
    async with quorum(tmp_path) as nodes:
        leader = await leader_of(nodes)
        follower = next(node for node in nodes if node is not leader)
        gone = asyncio.create_task(follower.propose(["a"]))
        others = [asyncio.create_task(follower.propose([letter])) for letter in "bc"]
        asyncio.get_running_loop().call_soon(gone.cancel)
        first, second = await asyncio.gather(*others, return_exceptions=True)
        assert isinstance(first, NotLeaderError)
        assert isinstance(second, NotLeaderError)
        assert first is not second
        assert (str(first), first.leader_id, first.epoch) == (str(second), second.leader_id, second.epoch)
        assert first.leader_id == leader.node_id


async def test_each_call_counts_for_the_limit_of_undecided_proposals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producers, "UNDECIDED_PROPOSALS_MAX", 2)

    async with Node(alone(tmp_path), text_serde) as node:
        await leading(node)
        done = await asyncio.gather(*(node.propose([letter]) for letter in "abc"), return_exceptions=True)
        assert [type(each) for each in done] == [BufferFullError] * 3
        assert [type(each) for each in await asyncio.gather(node.propose(["a"]), node.propose(["b"]))] == [
            Committed,
            Committed,
        ]
        assert (await node.metrics())["undecided-proposals"] == 0


@BOTH
async def test_what_gathers_when_the_node_ends_is_not_in_the_log(tmp_path: Path, own_thread: bool) -> None:
    node = Node(alone(tmp_path), text_serde, own_thread=own_thread)
    await node.initialize()
    await leading(node)
    node._life.engine.fail(OSError("bad"))
    waiting = [asyncio.create_task(node.propose([letter])) for letter in "ab"]
    for each in waiting:
        with pytest.raises(NotRunningError):
            await each
    with pytest.raises(OSError, match="bad"):
        await node.close()


@BOTH
async def test_what_the_host_never_answered_is_in_doubt(
    tmp_path: Path, own_thread: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a bug does this; then the records may be in the log."""
    node = Node(alone(tmp_path), text_serde, own_thread=own_thread)
    await node.initialize()
    await leading(node)
    got = asyncio.Event()

    def forget(self: Host, values: object, **others: object) -> int:
        del self, values, others
        node.loops.to_application(got.set)
        return 1

    monkeypatch.setattr(Host, "propose", forget)
    waiting = asyncio.create_task(node.propose(["a"]))
    await got.wait()
    await node.close()
    with pytest.raises(OutcomeUnknownError, match="before it answered: the records may or may not be in the log"):
        await waiting


async def test_each_call_learns_where_its_own_records_may_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """1. Three calls are one proposal; 2. one of them is cancelled; 3. the leadership is lost."""
    got = asyncio.Event()
    decide: list[Callable[[ProposalOutcome], None]] = []

    def keep(self: Host, values: object, *, on_outcome: Callable[[ProposalOutcome], None], **others: object) -> int:
        del self, values, others
        decide.append(on_outcome)
        got.set()
        return 1

    async with Node(alone(tmp_path), text_serde) as node:
        await leading(node)
        with monkeypatch.context() as patched:
            patched.setattr(Host, "propose", keep)
            calls = [asyncio.create_task(node.propose(list(letters))) for letters in ("ab", "c", "def")]
            await asyncio.wait_for(got.wait(), TIMEOUT_S)
        calls[1].cancel()
        await asyncio.wait([calls[1]])
        decide[0](OutcomeUnknown(base_offset=Offset(7), epoch=Epoch(3)))
        first, _, third = await asyncio.gather(*calls, return_exceptions=True)
        assert isinstance(first, OutcomeUnknownError)
        assert isinstance(third, OutcomeUnknownError)
        assert (first.base_offset, first.count) == (7, 2)
        assert (third.base_offset, third.count, third.epoch) == (10, 3, 3)
        assert str(third).startswith("the leadership of epoch 3 was lost before 3 records at offset 10 could commit")
