"""A voter set without a level before it is found."""

from __future__ import annotations

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.membership.level_first import LevelBeforeVoters
from tests.sim.invariants.fakes import keyed, node, voter_record, world


def test_the_first_set_brings_the_level_with_it() -> None:
    where = world()
    made = LevelBeforeVoters(where)
    first = voter_record(3, keyed(1, 2, 3), level=1)
    made.voters_written(node(), first, 0)
    with pytest.raises(ViolationError, match=r"its log knows no kraft\.version"):
        made.voters_written(node(), voter_record(3, keyed(1, 2, 3)), 0)
    where.members.electorate.records = [first]
    made.voters_written(node(), voter_record(5, keyed(1, 2)), 5)
