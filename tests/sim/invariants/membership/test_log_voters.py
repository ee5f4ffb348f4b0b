"""A node that uses other voters than its log names is found, after every change of the log."""

from __future__ import annotations

import pytest

from pykraft.core.effects import WriteElectionState
from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.membership.log_voters import VotersAreOfTheLog
from pykraft.types import Election, Io
from tests.sim.invariants.fakes import BEFORE, appends, encoded, keyed, node, truncates, view, voter_record, world


def test_the_voters_are_those_of_the_log() -> None:
    where = world()
    made = VotersAreOfTheLog(where)
    made.started(node())
    made.after_event(node(), view())
    where.members.electorate.records = [voter_record(0, keyed(1, 2))]
    made.after_event(node(), view())
    control, data = encoded(0), encoded(1, b"value")
    made.submitted(node(), appends(data))
    made.submitted(node(), WriteElectionState(io=Io(1), election=Election(), voters=(), kraft_version=0))
    made.after_event(node(), view())
    made.submitted(node(), appends(control))
    made.after_event(node(), BEFORE)
    made.changed(node(), view(), view(voters=keyed(1, 2)))
    made.after_event(node(), view(voters=keyed(1, 2)))


def test_others_are_found() -> None:
    where = world()
    where.members.electorate.records = [voter_record(0, keyed(1, 2))]
    made = VotersAreOfTheLog(where)
    made.submitted(node(), truncates(3))
    with pytest.raises(ViolationError, match=r"takes \[1, 2, 3\] for the voters, its log says \[1, 2\]"):
        made.after_event(node(), view())
