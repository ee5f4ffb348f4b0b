"""Two snapshots of one id with different bytes are found."""

from __future__ import annotations

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.snapshots.snapshot_alike import SnapshotsAlike
from tests.sim.invariants.fakes import BEFORE, node, snapshot_id, view, world


def test_the_same_bytes_are_accepted_and_others_are_found() -> None:
    where = world()
    made = SnapshotsAlike(where)
    known = view(snapshots=(snapshot_id(3),))
    for at, content in ((1, b"one"), (2, b"one"), (3, b"other")):
        where.contents[at, snapshot_id(3)] = content
    made.changed(node(4), BEFORE, known)
    made.changed(node(1), BEFORE, known)
    made.changed(node(2), BEFORE, known)
    made.changed(node(3), known, known)
    made.changed(node(3), known, view(snapshots=(snapshot_id(3), snapshot_id(5))))
    with pytest.raises(ViolationError, match="node 3 has another snapshot up to 3 of epoch 1"):
        made.changed(node(3), BEFORE, known)
