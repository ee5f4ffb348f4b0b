"""Commands reach the log through lost answers, ended sessions and the end of the node; errors say what is certain."""

import asyncio
import pickle
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from types import CoroutineType, SimpleNamespace
from typing import Any, cast

import pytest

from pykraft.client import configure
from pykraft.errors import (
    BufferFullError,
    NotAppliedError,
    NotRunningError,
    OutcomeUnknownError,
    UnfinishedCommand,
    UsageError,
)
from pykraft.machine import Replicated, applier, submission
from pykraft.machine import replica as replicas
from pykraft.machine.records import CommandRecord, OpenRecord, TickRecord, decode_log_record, encode_log_record
from pykraft.machine.replica import SESSION_TIMEOUT_MS, MachineReplica
from pykraft.types import Epoch, Offset, OffsetAndEpoch
from tests.client.nodes import QUICK
from tests.machine.counters import Add, Counters, Node, machines, next_turn, state_of


class EmptySnapshot:
    """What a node loads from a leader that has seen no session."""

    snapshot_id = OffsetAndEpoch(offset=Offset(1_000), epoch=Epoch(1))

    async def __aiter__(self) -> AsyncIterator[Any]:
        yield SimpleNamespace(records=[*MachineReplica(Counters()).save()])


def refuse(command: Add) -> None:
    if command.key == "refused":
        raise ValueError(command.key)


Send = Callable[[Sequence[bytes]], Awaitable[Offset]]


def intercept(
    node: Node, monkeypatch: pytest.MonkeyPatch, around: Callable[[Sequence[bytes], Send], Awaitable[Any]]
) -> None:
    """Send records through this function from now on."""
    send = node._submission._send
    monkeypatch.setattr(node._submission, "_send", lambda records: around(records, send))


def is_command(records: Sequence[bytes]) -> bool:
    return isinstance(decode_log_record(records[0]), CommandRecord)


async def test_a_command_whose_answer_was_lost_is_applied_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with machines(tmp_path, 1) as [node]:
        copies = []

        async def lossy(records: Sequence[bytes], send: Send) -> None:
            copies.append(records)
            await send(records)
            if len(copies) % 3:
                raise OutcomeUnknownError("the answer was lost")

        intercept(node, monkeypatch, lossy)
        for total in range(1, 20):
            assert await node.execute(Add("x", 1)) == total
        assert len(state_of(node).contexts) == 19


async def test_several_copies_in_the_log_are_applied_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with machines(tmp_path, 1) as [node]:

        async def twice(records: Sequence[bytes], send: Send) -> None:
            await asyncio.gather(send(records), send(records))

        intercept(node, monkeypatch, twice)
        totals = await asyncio.gather(*(node.execute(Add("x", 1)) for _ in range(50)))
        assert sorted(totals) == [*range(1, 51)]
        await node.execute(Add("y", 1))
        assert state_of(node).totals == {"x": 50, "y": 1}


async def test_a_late_copy_of_a_command_that_was_given_up_is_not_applied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(applier, "HELD_SPAN", 1)  # nobody can resume it after one more command
    async with machines(tmp_path, 1) as [node]:
        await node.execute(Add("x", 1))
        held: list[bytes] = []

        async def hold(records: Sequence[bytes], send: Send) -> None:
            if held:
                await send(records)
            else:
                held.extend(records)
                await asyncio.Event().wait()

        intercept(node, monkeypatch, hold)
        with pytest.raises(OutcomeUnknownError, match="no answer within 20 ms: the command may be applied, or not"):
            await node.execute(Add("x", 100), timeout_ms=20)
        assert await node.execute(Add("x", 1)) == 2
        await node.node.propose(held)
        assert await node.execute(Add("x", 1)) == 3


async def test_a_command_of_an_ended_session_gets_a_new_session(tmp_path: Path) -> None:
    async with machines(tmp_path, 1) as [node]:
        await node.execute(Add("x", 1))
        first = node._submission._session
        await node.node.propose([encode_log_record(TickRecord(10 * SESSION_TIMEOUT_MS))])
        assert await asyncio.gather(*(node.execute(Add("x", 1)) for _ in range(3))) == [2, 3, 4]
        assert node._submission._session is not first
        assert [*node._applier.sessions.values()] == [node._submission._session]


async def test_an_ended_session_leaves_the_outcome_unknown_if_a_copy_may_be_applied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with machines(tmp_path, 1) as [node]:
        await node.execute(Add("x", 1))
        tries = []

        async def unknown_then_expired(records: Sequence[bytes], send: Send) -> None:
            tries.append(records)
            if len(tries) == 1:
                raise OutcomeUnknownError("lost on the way")
            await node.node.propose([encode_log_record(TickRecord(10 * SESSION_TIMEOUT_MS))])
            await send(records)

        intercept(node, monkeypatch, unknown_then_expired)
        with pytest.raises(OutcomeUnknownError, match=r"has ended.*an earlier copy .* may have been applied"):
            await node.execute(Add("x", 1))
        assert state_of(node).totals == {"x": 1}


async def test_without_a_leader_a_command_is_certainly_not_applied(tmp_path: Path) -> None:
    voters = {1: "127.0.0.1:0", 2: "127.0.0.1:1", 3: "127.0.0.1:2"}
    node = Replicated(configure(tmp_path / "n1", node_id=1, voters=voters, raft=QUICK), Counters())
    await node.initialize()
    with pytest.raises(NotAppliedError, match=r"\(.*\): the command was not applied, and will not be") as caught:
        await node.execute(Add("x", 1), timeout_ms=100)
    await node.close()
    assert str(caught.value).startswith(
        "no answer within 100 ms (this node does not lead: no leader is known in epoch 0; this node's directory is "
        "unproven, so it does not vote until the other voters have answered: start those that are down)"
    )


async def test_a_node_that_has_ended_says_so(tmp_path: Path) -> None:
    async with machines(tmp_path, 1) as [node]:
        await node.execute(Add("x", 1))
        await node.close()
        with pytest.raises(NotRunningError):
            await node.execute(Add("x", 1))


@pytest.mark.parametrize("is_command_sent", [False, True])
async def test_the_end_of_the_node_answers_everybody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_command_sent: bool
) -> None:
    async with machines(tmp_path, 1) as [node]:
        if is_command_sent:
            await node.execute(Add("x", 1))
        sent = asyncio.Event()

        async def lose(records: Sequence[bytes], send: Send) -> None:
            assert is_command(records) is is_command_sent
            sent.set()
            raise OutcomeUnknownError("lost on the way")

        intercept(node, monkeypatch, lose)
        calls = [asyncio.create_task(node.execute(Add("x", 1))) for _ in range(3)]
        await sent.wait()
        await node.close()
        errors: list[Any] = await asyncio.gather(*calls, return_exceptions=True)
        expected = OutcomeUnknownError if is_command_sent else NotRunningError
        assert [type(error) for error in errors] == [expected] * 3


async def test_a_refused_proposal_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with machines(tmp_path, 1) as [node]:
        full = [BufferFullError("full"), BufferFullError("full")]

        async def refuse(records: Sequence[bytes], send: Send) -> None:
            if full:
                raise full.pop()
            await send(records)

        intercept(node, monkeypatch, refuse)
        assert await node.execute(Add("x", 1)) == 1


async def test_too_many_sessions_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicas, "SESSIONS_MAX", 0)
    async with machines(tmp_path, 1) as [node]:
        with pytest.raises(BufferFullError, match="too many open sessions"):
            await node.execute(Add("x", 1))
        monkeypatch.undo()
        assert await node.execute(Add("x", 1)) == 1


async def test_a_cancelled_caller_leaves_nothing_behind(tmp_path: Path) -> None:
    async with machines(tmp_path, 1) as [node]:
        await node.execute(Add("x", 1))
        call = asyncio.create_task(node.execute(Add("x", 1)))
        await next_turn()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert await node.execute(Add("x", 0)) in {1, 2}
        session = node._submission._session
        assert session is not None
        assert (session.waiters, session.acknowledged) == ({}, 3)


async def test_the_nonce_names_the_session_even_if_two_copies_open_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with machines(tmp_path, 1) as [node]:

        async def twice(records: Sequence[bytes], send: Send) -> None:
            if isinstance(decode_log_record(records[0]), OpenRecord):
                await asyncio.gather(send(records), send(records))
            else:
                await send(records)

        intercept(node, monkeypatch, twice)
        assert await node.execute(Add("x", 1)) == 1
        assert node._replica.sessions_count == 2
        assert await node.execute(Add("x", 1)) == 2


async def test_commands_of_one_turn_share_a_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with machines(tmp_path, 1) as [node]:
        await node.execute(Add("x", 1))
        sent = []

        async def counting(records: Sequence[bytes], send: Send) -> None:
            sent.append(len(records))
            await send(records)

        intercept(node, monkeypatch, counting)
        totals = await asyncio.gather(*(node.execute(Add("x", 1)) for _ in range(100)))
        assert (totals, sent) == ([*range(2, 102)], [100])
        sent.clear()
        # A batch has room for one of these commands and a small one.
        size = node._submission.group_size_bytes_max // 2
        await asyncio.gather(*(node.execute(Add("y" * size, 1)) for _ in range(3)), node.execute(Add("x", 1)))
        assert sent == [1, 1, 2]


async def test_each_caller_of_a_group_waits_as_long_as_it_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with machines(tmp_path, 1) as [node]:
        await node.execute(Add("x", 1))
        first = asyncio.Event()

        async def lose_until(records: Sequence[bytes], send: Send) -> None:
            if not first.is_set():
                raise BufferFullError("full")
            await send(records)

        intercept(node, monkeypatch, lose_until)
        patient = asyncio.create_task(node.execute(Add("x", 1)))
        for timeout_ms in (40, 20):
            with pytest.raises(NotAppliedError, match=rf"no answer within {timeout_ms} ms \(the last try: full\)"):
                await node.execute(Add("x", 100), timeout_ms=timeout_ms)
        first.set()
        assert await patient == 2
        assert node._submission._groups == {}


async def test_an_alarm_that_rings_early_answers_whom_it_rings_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with machines(tmp_path, 1) as [node]:
        await node.execute(Add("x", 1))

        async def never(records: Sequence[bytes], send: Send) -> None:
            await asyncio.get_running_loop().create_future()

        intercept(node, monkeypatch, never)
        called = asyncio.create_task(node.execute(Add("x", 1), timeout_ms=30_000))
        await next_turn()
        [group] = node._submission._groups
        [(*_, deadline_s)] = group.attempts
        node._submission._ring(deadline_s)  # as a loop does that rounds the time down
        with pytest.raises(OutcomeUnknownError, match="no answer within 30000 ms"):
            await called
        assert node._submission._alarm is None


@pytest.mark.parametrize("is_answered_first", [False, True])
async def test_an_opening_that_a_snapshot_replaced_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_answered_first: bool
) -> None:
    async with machines(tmp_path, 1) as [node]:
        sent, loaded = asyncio.Event(), asyncio.Event()

        async def committed_and_passed_over(records: Sequence[bytes], send: Send) -> Offset:
            if sent.is_set():
                return await send(records)
            sent.set()
            if not is_answered_first:
                await loaded.wait()
            return Offset(5)

        intercept(node, monkeypatch, committed_and_passed_over)
        calls = [asyncio.create_task(node.execute(Add("x", 1))) for _ in range(3)]
        await sent.wait()
        await next_turn()
        await node._applier.handle_load_snapshot(cast("Any", EmptySnapshot()))
        loaded.set()
        assert sorted(await asyncio.gather(*calls)) == [1, 2, 3]


async def test_a_burst_above_the_window_waits_for_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (applier, submission):
        monkeypatch.setattr(module, "WINDOW", 8)
    async with machines(tmp_path, 1) as [node]:
        assert sorted(await asyncio.gather(*(node.execute(Add("x", 1)) for _ in range(100)))) == [*range(1, 101)]
        held = asyncio.Event()

        async def hold(records: Sequence[bytes], send: Send) -> None:
            await held.wait()
            await send(records)

        intercept(node, monkeypatch, hold)
        before = [asyncio.create_task(node.execute(Add("x", 1))) for _ in range(8)]
        await next_turn()
        with pytest.raises(NotAppliedError, match="8 commands of this node already wait"):
            await node.execute(Add("x", 1), timeout_ms=20)
        late = [asyncio.create_task(node.execute(Add("x", 1))) for _ in range(9)]
        refused = asyncio.create_task(node.execute(Add("refused", 1)))
        monkeypatch.setattr(node.machine, "validate", refuse)
        await next_turn()
        assert {frames_of(each) for each in [*before, *late]} == {2}
        for each in late[:3]:
            each.cancel()
        held.set()
        done = await asyncio.gather(*before, *late, refused, return_exceptions=True)
        assert [type(each) for each in done[8:]] == [asyncio.CancelledError] * 3 + [int] * 6 + [UsageError]


def frames_of(call: asyncio.Task[int]) -> int:
    """How many frames of ours a waiting call holds: Python's collector stops the loop for each of them."""
    count, frame = 0, cast("object", call.get_coro())
    while isinstance(frame, CoroutineType):
        count, frame = count + 1, frame.cr_await
    return count


async def test_the_question_why_no_session_opens_holds_nobody_else_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with machines(tmp_path, 1) as [node]:
        await node.execute(Add("x", 1))
        asked, answered = asyncio.Event(), asyncio.Event()

        async def ask() -> str:
            asked.set()
            await answered.wait()
            return " (why)"

        async def lose(records: Sequence[bytes], send: Send) -> None:
            del records, send
            raise BufferFullError("full")

        monkeypatch.setattr(node._submission, "_ask_problem", ask)
        session, node._submission._session = node._submission._session, None
        monkeypatch.setattr(node._submission, "_open", asyncio.Event().wait)
        newcomer = asyncio.create_task(node.execute(Add("x", 1), timeout_ms=1))
        await asked.wait()
        node._submission._session = session
        intercept(node, monkeypatch, lose)
        with pytest.raises(NotAppliedError, match=r"no answer within 20 ms \(the last try: full\)"):
            await node.execute(Add("x", 1), timeout_ms=20)
        assert not newcomer.done()
        answered.set()
        with pytest.raises(NotAppliedError, match=r"no answer within 1 ms \(why\)"):
            await newcomer
        opening = node._submission._opening
        assert opening is not None
        opening.cancel()


async def test_thousands_without_a_quorum_cost_a_task_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    voters = {1: "127.0.0.1:0", 2: "127.0.0.1:1", 3: "127.0.0.1:2"}
    node = Replicated(configure(tmp_path / "n1", node_id=1, voters=voters, raft=QUICK), Counters())
    await node.initialize()
    asked: list[object] = []
    ask = node.node.ask

    async def counted(act: Any, **others: Any) -> Any:
        asked.append(act)
        return await ask(act, **others)

    monkeypatch.setattr(node.node, "ask", counted)
    monkeypatch.setattr(submission, "RUNG_MAX", 50)
    ended: list[int] = []
    ring = node._submission._ring

    def ring_counted(due_s: float) -> None:
        before = sum(each.done() for each in node._submission._newcomers)
        ring(due_s)
        ended.append(sum(each.done() for each in node._submission._newcomers) - before)

    monkeypatch.setattr(node._submission, "_ring", ring_counted)
    calls = [asyncio.create_task(node.execute(Add("x", 1), timeout_ms=100)) for _ in range(500)]
    await next_turn()
    assert {frames_of(each) for each in calls} == {2}
    opening = node._submission._opening
    assert opening is not None
    # What is taken off one by one would be quadratic.
    assert len(opening._callbacks or ()) <= 2
    done = await asyncio.gather(*calls, return_exceptions=True)
    await node.close()
    assert {type(each) for each in done} == {NotAppliedError}
    assert len(asked) < 40
    assert (sum(ended), max(ended)) == (500, 50)


def lost_once() -> Callable[[Sequence[bytes], Send], Awaitable[Any]]:
    """The first records are committed and nobody hears of it; all others go their way."""
    lost = asyncio.Event()

    async def send_or_lose(records: Sequence[bytes], send: Send) -> Offset:
        if lost.is_set() or not is_command(records):
            return await send(records)
        lost.set()
        raise OutcomeUnknownError("the answer was lost")

    return send_or_lose


async def unfinished_in(node: Node, monkeypatch: pytest.MonkeyPatch) -> UnfinishedCommand:
    """A command that has no answer within its time, and was not applied."""
    await node.execute(Add("x", 1))
    with monkeypatch.context() as patch:
        patch.setattr(submission, "PAUSE_S_MIN", 9.0)  # no other copy by itself
        intercept(node, patch, lost_once())
        with pytest.raises(OutcomeUnknownError) as raised:
            await node.execute(Add("x", 10), timeout_ms=20)
    assert raised.value.command is not None
    return pickle.loads(pickle.dumps(raised.value.command))  # type: ignore[no-any-return]  # noqa: S301 - our own


@pytest.mark.parametrize("where", [0, 1])
async def test_a_command_with_an_unknown_outcome_is_resumed_on_any_node_and_applied_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: int
) -> None:
    async with machines(tmp_path, 3) as nodes:
        command = await unfinished_in(nodes[0], monkeypatch)
        assert await nodes[0].execute(Add("x", 100)) == 101
        assert await nodes[where].resume(command) == 111
        assert await nodes[0].execute(Add("x", 1)) == 112


async def test_what_replicas_keep_no_more_cannot_be_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(applier, "HELD_SPAN", 3)
    async with machines(tmp_path, 1) as [node]:
        command = await unfinished_in(node, monkeypatch)
        for _ in range(4):
            await node.execute(Add("x", 1))
        with pytest.raises(OutcomeUnknownError, match="is kept no more") as raised:
            await node.resume(command)
        assert raised.value.command is None
        await node.node.propose([encode_log_record(TickRecord(10 * SESSION_TIMEOUT_MS))])
        await node.execute(Add("x", 1))
        with pytest.raises(OutcomeUnknownError, match=r"has ended: .*; the command may have been applied before"):
            await node.resume(command)
        with pytest.raises(UsageError, match="is no unfinished command"):
            await node.resume(cast("UnfinishedCommand", "x"))


async def test_two_calls_do_not_resume_one_command_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with machines(tmp_path, 1) as [node]:
        command = await unfinished_in(node, monkeypatch)
        first = asyncio.create_task(node.resume(command))
        await next_turn()
        with pytest.raises(UsageError, match="another call waits"):
            await node.resume(command)
        assert await first == 11
