"""An acknowledged value that is missing, or is another one, is found."""

from __future__ import annotations

import pytest

from pykraft.sim.facts.history import Operation, OperationOutcome
from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.clients.acknowledged import AcknowledgedIsCommitted
from tests.sim.invariants.fakes import operation, world


def acknowledged() -> Operation:
    return operation(1, b"a", b"b", answer=OperationOutcome.COMMITTED, base_offset=4)


@pytest.mark.parametrize("is_told_first", [True, False])
def test_what_is_there_is_accepted(is_told_first: bool) -> None:
    made = AcknowledgedIsCommitted(world())
    for step in (0, 1) if is_told_first else (1, 0):
        if step:
            made.committed(4, [b"a", b"b"])
        else:
            made.decided(acknowledged())
            made.decided(operation(2, b"c", answer=OperationOutcome.UNKNOWN))
    made.ended()


def test_another_value_is_found_in_either_order() -> None:
    made = AcknowledgedIsCommitted(world())
    made.decided(acknowledged())
    with pytest.raises(ViolationError, match="the value b was acknowledged at offset 5, x is committed there"):
        made.committed(4, [b"a", b"x"])
    made = AcknowledgedIsCommitted(world())
    made.committed(4, [b"a", b"x"])
    with pytest.raises(ViolationError, match="the value b was acknowledged at offset 5"):
        made.decided(acknowledged())


def test_what_is_not_there_at_the_end_is_found() -> None:
    made = AcknowledgedIsCommitted(world())
    made.decided(acknowledged())
    made.committed(4, [b"a"])
    with pytest.raises(ViolationError, match="acknowledged at offset 5 is not there"):
        made.ended()
