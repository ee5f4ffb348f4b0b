"""A value at two offsets is found."""

from __future__ import annotations

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.clients.duplicates import NoDuplicates
from tests.sim.invariants.fakes import world


def test_a_value_at_one_offset_is_accepted_and_at_two_found() -> None:
    made = NoDuplicates(world())
    made.committed(3, [b"a", b"b"])
    made.committed(3, [b"a"])
    with pytest.raises(ViolationError, match="the value b is committed at offset 4, and at 7 again"):
        made.committed(6, [b"c", b"b"])
