"""A log that starts where no durable snapshot ends is found, and a leader whose log is replaced."""

from __future__ import annotations

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.snapshots.cleaned import CleanedIsInSnapshot
from tests.sim.invariants.fakes import begins_anew, deletes_before, node, snapshot_id, truncates, world


def watching(*offsets: int) -> CleanedIsInSnapshot:
    where = world()
    where.snapshots[1] = tuple(snapshot_id(offset) for offset in offsets)
    return CleanedIsInSnapshot(where)


def test_a_log_goes_up_to_the_end_of_a_snapshot() -> None:
    made = watching(3, 5)
    for job in (deletes_before(3), deletes_before(5), begins_anew(5), truncates(4)):
        made.submitted(node(1, role="follower"), job)


@pytest.mark.parametrize("job", [deletes_before(4), begins_anew(6)])
def test_another_place_is_found(job: object) -> None:
    with pytest.raises(ViolationError, match="node 1 lets its log begin at"):
        watching(3, 5).submitted(node(1, role="follower"), job)  # type: ignore[arg-type]


def test_a_leader_whose_log_is_replaced_is_found() -> None:
    watching(5).submitted(node(1, role="leader"), deletes_before(5))
    with pytest.raises(ViolationError, match="leads, and puts a snapshot"):
        watching(5).submitted(node(1, role="leader"), begins_anew(5))
