"""A value that is both rejected and committed is found, in either order."""

from __future__ import annotations

import pytest

from pykraft.sim.facts.history import OperationOutcome
from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.clients.rejected import RejectedStaysOut
from tests.sim.invariants.fakes import operation, world

REJECTED = operation(1, b"a", answer=OperationOutcome.REJECTED)


def test_other_values_are_accepted() -> None:
    made = RejectedStaysOut(world())
    made.decided(REJECTED)
    made.decided(operation(2, b"b", answer=OperationOutcome.UNKNOWN))
    made.committed(0, [b"b", b"c"])


def test_it_is_found_in_either_order() -> None:
    made = RejectedStaysOut(world())
    made.decided(REJECTED)
    with pytest.raises(ViolationError, match="the value a was rejected and is committed"):
        made.committed(0, [b"a"])
    made = RejectedStaysOut(world())
    made.committed(0, [b"a"])
    with pytest.raises(ViolationError, match="the value a was rejected"):
        made.decided(REJECTED)
