"""An oracle without overrides accepts everything; each oracle says its rule."""

from __future__ import annotations

from pathlib import Path

from pykraft.sim.invariants import ALL, ViolationError
from pykraft.sim.invariants.invariant import Invariant
from pykraft.sim.machine.spoken import Spoken
from tests.sim.invariants.fakes import BEFORE, appends, node, operation, view, world


def test_by_itself_it_accepts_everything() -> None:
    invariant = Invariant(world())
    invariant.started(node())
    invariant.changed(node(), BEFORE, view())
    invariant.after_event(node(), view())
    invariant.before_send(node(), Spoken(epoch=9))
    invariant.submitted(node(), appends())
    invariant.persisted(node())
    invariant.delivered(node(), [])
    invariant.committed(0, [])
    invariant.told_leader(node(), 1, None)
    invariant.proposed(operation())
    invariant.accepted(operation())
    invariant.decided(operation())
    invariant.stopped(node(), ValueError())
    invariant.faults_ended()
    invariant.not_healed("nothing")
    invariant.ended()


def test_each_invariant_is_there_once_and_tells_its_rule_and_its_source() -> None:
    assert len({kind.__name__ for kind in ALL}) == len(ALL) >= 100
    assert [kind.__name__ for kind in ALL if "Source:" not in (kind.__doc__ or "")] == []


def test_a_violation_names_the_invariant_and_what_was_seen() -> None:
    error = Invariant(world()).violated("two of them")
    assert isinstance(error, ViolationError)
    assert (error.invariant, str(error)) == ("Invariant", "Invariant: two of them")


def test_each_oracle_is_tested_in_this_folder() -> None:
    tests = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    assert [kind.__name__ for kind in ALL if tests.count(kind.__name__) < 2] == []
