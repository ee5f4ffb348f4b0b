"""A leader that stays leader after its removal was committed is found."""

from __future__ import annotations

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.membership.removed_leader import RemovedLeaderResigns
from tests.sim.invariants.fakes import BEFORE, keyed, node, view, voter_record, world


def test_a_removed_leader_goes_when_that_is_committed() -> None:
    where = world()
    made = RemovedLeaderResigns(where)
    made.changed(node(), BEFORE, view("leader", high_watermark=9))
    where.members.electorate.records = [voter_record(4, keyed(2, 3))]
    for accepted in (view("leader"), view("leader", high_watermark=4), view("resigned", high_watermark=5)):
        made.changed(node(), BEFORE, accepted)
    made.changed(node(2), BEFORE, view("leader", high_watermark=9))
    with pytest.raises(ViolationError, match="leads on at 5, it is no voter since 4"):
        made.changed(node(), BEFORE, view("leader", high_watermark=5))
