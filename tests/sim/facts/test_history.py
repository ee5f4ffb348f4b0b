"""A history as calls: certain outcomes, open ones, and writes that may be ignored.

A request is open until it is answered or its process has ended.
"""

from __future__ import annotations

from pykraft.sim.facts.history import (
    REGISTERS,
    OperationOutcome,
    Registers,
    Visit,
    VisitQuestion,
    is_read,
    number_of,
    offset_calls,
    register_calls,
    register_of,
    value_of,
)
from pykraft.sim.facts.linearizability import NEVER_US, ObjectCall
from tests.sim.invariants.fakes import operation
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
