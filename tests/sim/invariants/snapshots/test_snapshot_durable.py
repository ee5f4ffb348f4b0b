"""A snapshot that a node relies on and that a power loss would remove is found."""

from __future__ import annotations

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.snapshots.snapshot_durable import SnapshotIsDurable
from pykraft.types import OffsetAndEpoch
from tests.sim.invariants.fakes import BEFORE, entry, node, snapshot_id, view, world
from tests.sim.snapshots import snapshot_of

WHOLE = snapshot_of([entry(0)])


def look(content: bytes | None, snapshot: OffsetAndEpoch) -> SnapshotIsDurable:
    where = world()
    if content is not None:
        where.contents[1, snapshot] = content
    made = SnapshotIsDurable(where)
    known = view(snapshots=(snapshot,))
    made.changed(node(1), known, known)
    made.changed(node(1), known, BEFORE)
    made.changed(node(1), BEFORE, known)
    made.changed(node(1), known, view(snapshots=(snapshot,), epoch=2))
    return made


def test_a_whole_one_with_a_name_is_accepted() -> None:
    look(WHOLE, snapshot_id(1))


@pytest.mark.parametrize(
    ("content", "epoch"), [(None, 1), (b"", 1), (WHOLE[:-1], 1), (WHOLE[:100], 1), (bytes(len(WHOLE)), 1), (WHOLE, 2)]
)
def test_one_that_is_not_there_or_not_whole_or_of_another_epoch_is_found(content: bytes | None, epoch: int) -> None:
    with pytest.raises(ViolationError, match="node 1 counts on"):
        look(content, snapshot_id(1, epoch=epoch))


def test_a_start_without_the_newest_one_is_found() -> None:
    made = look(WHOLE, snapshot_id(1))
    made.started(node(2))
    made.facts.snapshots[1] = (snapshot_id(4),)  # type: ignore[attr-defined]
    made.started(node(1))
    made.facts.snapshots[1] = ()  # type: ignore[attr-defined]
    with pytest.raises(ViolationError, match="node 1 had the snapshot"):
        made.started(node(1))
    made.facts.set_aside.add((1, snapshot_id(1)))  # type: ignore[attr-defined]
    made.started(node(1))
    made.facts.set_aside.clear()  # type: ignore[attr-defined]
    made.wiped(node(1))
    made.started(node(1))
