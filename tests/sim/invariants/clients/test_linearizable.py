"""A history that is not linearizable is found: of registers, and of offsets."""

from __future__ import annotations

from typing import Any

import pytest

from pykraft.sim.facts.history import Operation, OperationOutcome, value_of
from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.clients.linearizable import Linearizable
from tests.sim.invariants.fakes import operation, world


def write(number: int, begin_us: int, end_us: int, *, base_offset: int) -> Operation:
    told: dict[str, Any] = {"invoked_us": begin_us, "answered_us": end_us, "base_offset": base_offset}
    return operation(number, value_of(number, b"w", 0), answer=OperationOutcome.COMMITTED, **told)


def read(number: int, begin_us: int, end_us: int, found: int) -> Operation:
    return operation(number, value_of(number, b"r", 0), invoked_us=begin_us, read=found, read_us=end_us)


def look(*operations: Operation) -> None:
    where = world()
    where.history.operations = list(operations)
    Linearizable(where).ended()


def test_a_history_with_an_order_is_accepted() -> None:
    look(write(4, 0, 10, base_offset=0), read(8, 20, 30, 4), write(12, 25, 50, base_offset=2), read(16, 30, 40, 12))


def test_a_stale_read_is_found() -> None:
    with pytest.raises(ViolationError, match="register 0"):
        look(write(4, 0, 10, base_offset=0), write(8, 20, 30, base_offset=1), read(12, 40, 50, 4))


def test_offsets_against_the_order_of_time_are_found() -> None:
    with pytest.raises(ViolationError, match="offsets"):
        look(write(4, 0, 10, base_offset=5), write(5, 20, 30, base_offset=3))
