"""A voter set that follows an uncommitted one is found."""

from __future__ import annotations

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.membership.one_change import OneChangeInDoubt
from tests.sim.invariants.fakes import keyed, node, voter_record, world


def test_a_set_follows_what_is_committed() -> None:
    where = world()
    made = OneChangeInDoubt(where)
    made.voters_written(node(), voter_record(3, keyed(1, 2, 3)), 0)
    where.members.electorate.records = [voter_record(3, keyed(1, 2, 3))]
    made.voters_written(node(), voter_record(9, keyed(1, 2)), 4)
    made.voters_written(node(), voter_record(9, keyed(1, 2, 3), is_opening=True), 3)
    with pytest.raises(ViolationError, match="the one at 3 is in doubt: 3 is committed"):
        made.voters_written(node(), voter_record(9, keyed(1, 2)), 3)
