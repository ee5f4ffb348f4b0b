"""An invariant that overrides nothing accepts everything; a violation says whose it is."""

from __future__ import annotations

from pykraft.sim.invariants import ALL
from pykraft.sim.invariants.invariant import Invariant, ViolationError
from pykraft.sim.spoken import Spoken
from tests.sim.invariants.fakes import node, world


def test_by_itself_it_accepts_everything() -> None:
    invariant = Invariant()
    invariant.after_event(world(), node())
    invariant.before_send(world(), node(), Spoken(epoch=9))
    invariant.persisted(world(), node())
    invariant.delivered(node(), [])
    invariant.started(node())


def test_a_violation_names_the_invariant_and_what_was_seen() -> None:
    error = Invariant().violated("two of them")
    assert isinstance(error, ViolationError)
    assert (error.invariant, str(error)) == ("Invariant", "Invariant: two of them")


def test_each_invariant_is_asked_once() -> None:
    assert len(set(ALL)) == len(ALL) == 8
