"""A leader that gets a snapshot is found, unless it has not heard of its leadership or has lost it."""

from __future__ import annotations

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.snapshots.leader_loads import LeaderNeverLoadsSnapshot
from tests.sim.invariants.fakes import node, snapshot_id, world


def test_who_does_not_lead_or_does_not_know_may_load_one() -> None:
    made = LeaderNeverLoadsSnapshot(world())
    leader = node(1, role="leader", epoch=2)
    made.loaded(leader, snapshot_id(3))
    made.told_leader(leader, 2, 1)
    made.told_leader(leader, 3, None)
    made.loaded(leader, snapshot_id(4))
    made.told_leader(leader, 4, 1)
    made.loaded(node(1, role="resigned", epoch=4), snapshot_id(5))
    made.started(leader)
    made.loaded(node(1, role="leader", epoch=4), snapshot_id(5))


def test_a_leader_that_knows_may_not() -> None:
    made = LeaderNeverLoadsSnapshot(world())
    made.told_leader(node(1), 2, 1)
    with pytest.raises(ViolationError, match="node 1 leads epoch 2"):
        made.loaded(node(1, role="leader", epoch=2), snapshot_id(3))
