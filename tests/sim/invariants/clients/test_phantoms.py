"""A value that nobody proposed is found."""

from __future__ import annotations

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.clients.phantoms import NoPhantoms
from tests.sim.invariants.fakes import operation, world


def test_proposed_values_are_accepted_and_others_are_found() -> None:
    made = NoPhantoms(world())
    made.proposed(operation(1, b"a", b"b"))
    made.committed(3, [b"b", b"a"])
    with pytest.raises(ViolationError, match="offset 6 holds b'c', which nobody proposed"):
        made.committed(5, [b"a", b"c"])
