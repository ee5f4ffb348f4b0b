"""A backlog that is appended at once is found."""

from __future__ import annotations

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.log.one_batch import OneBatchAStep
from tests.sim.invariants.fakes import appends, encoded, node, truncates, world


def test_one_batch_is_enough_and_two_before_a_voter_set() -> None:
    made, leader = OneBatchAStep(world()), node(1, role="leader")
    made.submitted(leader, appends(encoded(3, b"a")))
    made.submitted(leader, appends(encoded(4, b"a"), encoded(5, b"b"), encoded(6)))
    made.submitted(leader, truncates(3))
    made.submitted(node(2, role="follower"), appends(encoded(3, b"a"), encoded(4, b"b")))


@pytest.mark.parametrize("count", [2, 3])
def test_more_is_found(count: int) -> None:
    made, leader = OneBatchAStep(world()), node(1, role="leader")
    batches = [encoded(offset, b"a") for offset in range(count)]
    control = [encoded(count)] if count > 2 else []
    with pytest.raises(ViolationError, match=f"appends {count} batches of proposals in one step"):
        made.submitted(leader, appends(*batches, *control))
