"""A violation names its oracle, and tells what was seen."""

from __future__ import annotations

from pykraft.sim.invariants.invariant import Invariant
from pykraft.sim.invariants.violation import ViolationError
from tests.sim.invariants.fakes import world


def test_a_violation_names_the_invariant_and_what_was_seen() -> None:
    error = Invariant(world()).violated("two of them")
    assert isinstance(error, ViolationError)
    assert (error.invariant, str(error)) == ("Invariant", "Invariant: two of them")
