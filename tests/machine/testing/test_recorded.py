"""What is noted of calls; each lie that a caller can be told is seen, and so is the first difference of replicas."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from pykraft.errors import CommandRejectedError, NotAppliedError
from pykraft.machine import Applied, Replicated
from pykraft.machine.testing.recorded import (
    AppliedCall,
    CallHistory,
    CallVerdict,
    MachineCall,
    Numbered,
    RecordedNode,
    Reference,
    WatchedMachine,
    digest_of,
    judge,
)
from pykraft.sim.invariants import ViolationError
from pykraft.sim.machine.clock import Clock
from pykraft.types import Epoch, Offset
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


async def test_a_cancelled_call_stays_open() -> None:
    history, node, known = recorded()

    async def never(*_: object, **__: object) -> None:
        await asyncio.get_running_loop().create_future()

    node.execute = never  # type: ignore[method-assign, assignment]
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await known.execute(Add("x", 1))
    assert [(call.verdict, call.answered_us) for call in history.calls] == [(CallVerdict.OPEN, None)]


def call(number: int, begin_us: int, end_us: int | None, verdict: CallVerdict = CallVerdict.APPLIED) -> MachineCall:
    return MachineCall(
        number=number,
        node_id=1,
        story=f"call {number}",
        is_read=False,
        invoked_us=begin_us,
        answered_us=end_us,
        verdict=verdict,
        answer=f"answer {number}",
    )


def read(number: int, begin_us: int, end_us: int, position: int) -> MachineCall:
    found = call(number, begin_us, end_us)
    found.is_read, found.position, found.answer = True, position, f"state {position}"
    return found


def log(*numbers: int) -> Reference:
    reference = Reference()
    for position, number in enumerate(numbers, 1):
        applied = AppliedCall(number, 10 + position, f"call {number}", f"answer {number}", f"state {position}")
        reference.met(1, position - 1, applied)
    return reference


def test_what_is_true_passes() -> None:
    calls = [
        call(1, 0, 10),
        call(2, 0, 5),
        call(3, 1, 20, CallVerdict.UNKNOWN),
        call(4, 30, 31, CallVerdict.NOT_APPLIED),
        call(5, 40, None, CallVerdict.OPEN),
        read(6, 11, 12, 2),
        read(7, 13, 14, 3),
        call(8, 50, 60),
    ]
    judge(calls, log(2, 1, 3, 5, 8))


def test_an_answer_that_is_not_in_the_log_or_differs() -> None:
    with pytest.raises(ViolationError, match="call 1 was answered with answer 1, and is not in the log"):
        judge([call(1, 0, 1)], log())
    other = call(1, 0, 1)
    other.answer = "another"
    with pytest.raises(ViolationError, match="call 1 was answered with another; replicas got answer 1"):
        judge([other], log(1))


def test_a_command_that_is_applied_after_all() -> None:
    with pytest.raises(ViolationError, match="ErrorsAreTrue"):
        judge([call(1, 0, 1, CallVerdict.NOT_APPLIED)], log(1))


def test_commands_in_another_order_than_that_of_their_callers() -> None:
    with pytest.raises(ViolationError, match="call 1 was answered before call 2 was called, and comes after it"):
        judge([call(1, 0, 10), call(2, 11, 12)], log(2, 1))
    # Nobody knows when a command with an unknown outcome was applied.
    judge([call(1, 0, 10, CallVerdict.UNKNOWN), call(2, 11, 12)], log(2, 1))


def test_a_read_that_misses_what_was_told_before() -> None:
    with pytest.raises(ViolationError, match="call 3 on node 1 found 1 commands; call 2 had told of 2"):
        judge([call(1, 0, 5), call(2, 1, 6), read(3, 7, 9, 1)], log(1, 2))
    with pytest.raises(ViolationError, match="call 4 on node 1 found 1 commands; call 3 had told of 2"):
        judge([call(1, 0, 5), call(2, 1, 60), read(3, 7, 9, 2), read(4, 10, 11, 1)], log(1, 2))
    judge([call(1, 0, 5), call(2, 1, 60), read(3, 7, 9, 2), read(4, 8, 11, 1)], log(1, 2))


def test_a_read_of_a_state_that_never_was() -> None:
    torn = read(2, 7, 9, 1)
    torn.answer = "another state"
    with pytest.raises(ViolationError, match="another state than that after 1 commands"):
        judge([call(1, 0, 5), torn], log(1))


def at(offset: int) -> Applied:
    return Applied(Offset(offset), Epoch(1), 5, 0)


def replicas(reference: Reference) -> list[WatchedMachine[Add, int]]:
    return [WatchedMachine(Counters(), reference, node_id) for node_id in (1, 2)]


def test_equal_replicas_are_equal() -> None:
    reference = Reference()
    for replica in replicas(reference):
        assert replica.apply(Numbered(1, Add("x", 2)), at(4)) == 2
        with pytest.raises(CommandRejectedError):
            replica.apply(Numbered(2, Add("x", -3)), at(6))
        assert replica.state_digest() == (2, digest_of(replica.machine))
    assert [call.offset for call in reference.calls] == [4, 6]
    assert reference.digest_at(0) is None
    assert reference.digest_at(2) == reference.calls[1].digest


def test_a_command_that_only_one_replica_applies_is_told() -> None:
    first, second = replicas(Reference())
    first.apply(Numbered(1, Add("x", 1)), at(4))
    first.apply(Numbered(2, Add("y", 1)), at(5))
    with pytest.raises(ViolationError, match=r"node 2 applied call 2, .* at offset 5, others call 1, .* at offset 4"):
        second.apply(Numbered(2, Add("y", 1)), at(5))


def test_another_answer_and_another_state_are_told() -> None:
    first, second = replicas(Reference())
    first.apply(Numbered(1, Add("x", 1)), at(4))
    second.machine.restore([b"x=7"])
    with pytest.raises(ViolationError, match=r"node 2 answered call 1, .* with b'8', others with b'1'"):
        second.apply(Numbered(1, Add("x", 1)), at(4))
    first, second = replicas(Reference())
    first.apply(Numbered(1, Add("x", 1)), at(4))
    second.machine.restore([b"z=7"])
    with pytest.raises(ViolationError, match="the state of node 2 is another one after call 1"):
        second.apply(Numbered(1, Add("x", 1)), at(4))


def test_a_call_that_is_applied_twice_is_told() -> None:
    first, _ = replicas(Reference())
    first.apply(Numbered(1, Add("x", 1)), at(4))
    with pytest.raises(ViolationError, match="applied at offset 4 and again at offset 5"):
        first.apply(Numbered(1, Add("x", 1)), at(5))


def test_a_replica_goes_on_after_a_snapshot() -> None:
    first, second = replicas(Reference())
    for number, offset in ((1, 4), (2, 6), (3, 9)):
        first.apply(Numbered(number, Add("x", 1)), at(offset))
    second.restore([b"x=2"])
    assert second.position is None
    second.apply(Numbered(3, Add("x", 1)), at(9))
    assert second.position == 3


def test_a_command_keeps_its_number_in_the_log() -> None:
    serde = WatchedMachine(Counters(), Reference(), 1).commands
    assert serde.deserialize(serde.serialize(Numbered(77, Add("x", 1)))) == Numbered(77, Add("x", 1))
