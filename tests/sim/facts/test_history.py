"""A history as calls, whose order a search finds; a state and a snapshot are read as written."""

from collections.abc import Sequence
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.errors import UsageError
from pykraft.sim.facts.history import (
    NEVER_US,
    READ,
    REGISTERS,
    WRITE,
    ApplicationState,
    Object,
    ObjectCall,
    OperationOutcome,
    Plain,
    Registers,
    SearchVerdict,
    Visit,
    VisitQuestion,
    check,
    is_read,
    number_of,
    offset_calls,
    offsets,
    read_snapshot,
    register,
    register_calls,
    register_of,
    value_of,
)
from tests.sim.invariants.fakes import batch, encoded, entries_of, entry, operation, snapshot_of
from tests.sim.worlds import led_world


def write(number: int) -> bytes:
    return value_of(number, b"w", 3)


def read(number: int) -> bytes:
    return value_of(number, b"r", 0)


def test_a_value_says_its_number_its_register_and_what_it_does() -> None:
    assert (number_of(write(17)), register_of(write(17)), is_read(write(17))) == (17, 17 % REGISTERS, False)
    assert (number_of(read(5)), is_read(read(5))) == (5, True)
    assert len(write(1)) == len(read(1)) + 3


def test_registers_hold_the_last_number_written() -> None:
    registers = Registers()
    assert [registers.apply(value) for value in (read(4), write(4), read(8), write(5), write(8), read(12))] == [
        *(0, 4, 4, 5, 8, 8)
    ]


def test_calls_are_told_apart_by_register_and_by_what_is_certain() -> None:
    calls = register_calls(
        [
            operation(1, write(4), write(5), answer=OperationOutcome.COMMITTED, answered_us=9, invoked_us=1),
            operation(2, write(8), answer=OperationOutcome.UNKNOWN, answered_us=7, invoked_us=2),
            operation(3, write(12), invoked_us=3),
            operation(4, write(16), answer=OperationOutcome.REJECTED, answered_us=5, invoked_us=4),
            operation(5, read(20), read=8, read_us=20, invoked_us=10),
            operation(6, read(24), invoked_us=10),
        ]
    )
    assert calls == {
        0: [ObjectCall(1, 9, ("write", 4)), ObjectCall(2, NEVER_US, ("write", 8)), ObjectCall(10, 20, ("read", 8))],
        1: [ObjectCall(1, 9, ("write", 5))],
    }


def test_offsets_are_those_that_were_acknowledged() -> None:
    told = operation(1, write(1), write(2), answer=OperationOutcome.COMMITTED, answered_us=9, base_offset=5)
    assert offset_calls([told, operation(2, base_offset=7)]) == [ObjectCall(0, 9, ("append", 5, 7))]


def test_a_visit_is_open_while_an_answer_may_come() -> None:
    world, leader = led_world()
    answered, broken = (Visit(question=VisitQuestion.DESCRIBE_QUORUM, process=leader, asked_us=0) for _ in range(2))
    assert answered.is_open
    answered.answer = {"error_code": 0}
    assert not answered.is_open
    refused = Visit(question=VisitQuestion.DESCRIBE_QUORUM, process=leader, asked_us=0, is_refused=True)
    assert not refused.is_open
    assert broken.is_open
    world.nodes[leader.node_id].kill()
    assert not broken.is_open


def test_a_state_is_read_back_as_it_was() -> None:
    state = ApplicationState(keeps_entries=True)
    written = value_of(5, WRITE, 3)
    for each in (batch(0), batch(1, written, epoch=2)):
        state.note(each)
    state.registers.apply(written)
    again = ApplicationState.of(map(Plain().deserialize, map(Plain().serialize, state.records())))
    assert again.records() == state.records()
    assert again.entries == entries_of(encoded(0), encoded(1, written, epoch=2))
    assert again.registers.apply(value_of(9, READ, 0)) == 5


def test_without_snapshots_no_batch_is_remembered() -> None:
    state = ApplicationState(keeps_entries=False)
    state.note(batch(0))
    assert state.records() == []


@pytest.mark.parametrize("record", [b"", b"E", b"R" + bytes(20), b"other"])
def test_what_is_no_record_is_refused(record: bytes) -> None:
    with pytest.raises(UsageError, match="no record"):
        ApplicationState.of([record])


WHOLE = snapshot_of([entry(0), entry(1)], epoch=3)


def test_what_the_writer_made_is_read() -> None:
    found = read_snapshot(WHOLE)
    assert found is not None
    assert (found.epoch, found.is_whole, found.state.entries) == (3, True, [entry(0), entry(1)])


def test_whole_batches_without_an_end_are_not_whole() -> None:
    sizes = [size for size in range(len(WHOLE)) if read_snapshot(WHOLE[:size]) is not None]
    assert len(sizes) == 2, "after the header, and after the records"
    assert not any(found.is_whole for found in (read_snapshot(WHOLE[:size]) for size in sizes) if found)


@pytest.mark.parametrize("content", [b"", b"bytes", WHOLE[:-1], WHOLE + WHOLE, encoded(0, b"no record of ours")])
def test_anything_else_is_none(content: bytes) -> None:
    assert read_snapshot(content) is None


@pytest.mark.parametrize("position", [70, 120, 200])
def test_a_changed_byte_is_seen(position: int) -> None:
    changed = bytearray(WHOLE)
    changed[position] ^= 1
    assert read_snapshot(bytes(changed)) is None


def write_call(number: int, begin: int, end: int = NEVER_US) -> ObjectCall:
    return ObjectCall(begin, end, ("write", number))


def read_call(number: int, begin: int, end: int) -> ObjectCall:
    return ObjectCall(begin, end, ("read", number))


def append(base_offset: int, end_offset: int, begin: int, end: int) -> ObjectCall:
    return ObjectCall(begin, end, ("append", base_offset, end_offset))


LINEARIZABLE: dict[str, Sequence[ObjectCall]] = {
    "nothing happened": [],
    "one after the other": [write_call(1, 0, 1), read_call(1, 2, 3), write_call(2, 4, 5), read_call(2, 6, 7)],
    "a read of the beginning": [read_call(0, 0, 1), write_call(1, 2, 3)],
    "a read beside a write may see it": [write_call(1, 0, 9), read_call(1, 2, 3)],
    "or not": [write_call(1, 0, 9), read_call(0, 2, 3), read_call(1, 4, 5)],
    "two writes in the order of the reads": [write_call(1, 0, 9), write_call(2, 0, 9), read_call(2, 10, 11)],
    "an open write that took effect late": [
        write_call(1, 0),
        read_call(0, 1, 2),
        write_call(2, 3, 4),
        read_call(1, 5, 6),
    ],
    "an open write that never did": [write_call(1, 0), write_call(2, 1, 2), read_call(2, 3, 4)],
    "calls of one moment": [write_call(1, 0, 1), read_call(0, 1, 2)],
}
NOT_LINEARIZABLE: dict[str, Sequence[ObjectCall]] = {
    "a lost write": [write_call(1, 0, 1), read_call(0, 2, 3)],
    "a read from nowhere": [read_call(7, 0, 1)],
    "a read of the future": [read_call(1, 0, 1), write_call(1, 2, 3)],
    "a stale read": [write_call(1, 0, 1), write_call(2, 2, 3), read_call(1, 4, 5)],
    "a read that goes back": [write_call(1, 0, 9), read_call(1, 1, 2), read_call(0, 3, 4)],
    "two readers that disagree": [write_call(1, 0, 9), write_call(2, 0, 9), read_call(1, 10, 11), read_call(2, 12, 13)],
    "an open write that took effect and was lost": [write_call(1, 0), read_call(1, 1, 2), read_call(0, 3, 4)],
}


@pytest.mark.parametrize("name", LINEARIZABLE)
def test_a_history_with_an_order_passes(name: str) -> None:
    assert check(LINEARIZABLE[name], register) is SearchVerdict.LINEARIZABLE


@pytest.mark.parametrize("name", NOT_LINEARIZABLE)
def test_a_history_without_one_does_not(name: str) -> None:
    assert check(NOT_LINEARIZABLE[name], register) is SearchVerdict.NOT_LINEARIZABLE


def test_offsets_follow_the_order_of_time() -> None:
    assert check([append(0, 2, 0, 9), append(5, 6, 1, 2), append(2, 4, 0, 9)], offsets) is SearchVerdict.LINEARIZABLE
    assert check([append(5, 6, 0, 1), append(2, 3, 2, 3)], offsets) is SearchVerdict.NOT_LINEARIZABLE
    assert check([append(0, 3, 0, 9), append(2, 4, 0, 9)], offsets) is SearchVerdict.NOT_LINEARIZABLE


def test_the_search_is_bounded() -> None:
    calls = [write_call(number, 0, 99) for number in range(1, 20)]
    assert check([*calls, read_call(77, 0, 99)], register, steps_max=1_000) is SearchVerdict.UNDECIDED
    assert check(calls, register, steps_max=1_000) is SearchVerdict.LINEARIZABLE


def brute_force(calls: Sequence[ObjectCall], behaves: Object) -> bool:
    """Every order of all calls, the open ones left out or not."""
    for count in range(len(calls) + 1):
        for order in permutations(calls, count):
            if {*range(len(calls))} - {calls.index(call) for call in order} <= {
                number for number, call in enumerate(calls) if call.answered_us == NEVER_US
            } and _explains(order, behaves):
                return True
    return False


def _explains(order: Sequence[ObjectCall], behaves: Object) -> bool:
    state: int | None = 0
    latest_us = 0
    for call in order:
        latest_us = max(latest_us, call.invoked_us)
        if state is None or call.answered_us < latest_us:
            return False
        state = behaves(state, call.what)
    return state is not None


@st.composite
def histories(draw: st.DrawFn) -> list[ObjectCall]:
    calls = []
    for number in range(1, draw(st.integers(0, 5)) + 1):
        begin = draw(st.integers(0, 6)) * 10 + number
        end = draw(st.sampled_from([begin + 5, begin + 25, NEVER_US]))
        if draw(st.booleans()):
            calls.append(write_call(number, begin, end))
        elif end < NEVER_US:
            calls.append(read_call(draw(st.integers(0, 5)), begin, end))
    return calls


@given(histories())
def test_it_agrees_with_trying_all_orders(calls: list[ObjectCall]) -> None:
    expected = SearchVerdict.LINEARIZABLE if brute_force(calls, register) else SearchVerdict.NOT_LINEARIZABLE
    assert check(calls, register) is expected
