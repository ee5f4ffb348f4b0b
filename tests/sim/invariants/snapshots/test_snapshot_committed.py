"""A snapshot that differs from the committed log before its end is found."""

from __future__ import annotations

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.snapshots.snapshot_committed import SnapshotIsCommitted
from pykraft.sim.machine.ledger import Entry, Ledger
from pykraft.types import OffsetAndEpoch
from tests.sim.invariants.fakes import BEFORE, entry, node, snapshot_id, view, world
from tests.sim.snapshots import snapshot_of

COMMITTED = [entry(0), entry(1), entry(2, epoch=2)]


def look(snapshot: OffsetAndEpoch, content: bytes | None) -> None:
    where = world()
    where.committed = Ledger(COMMITTED)
    if content is not None:
        where.contents[1, snapshot] = content
    made = SnapshotIsCommitted(where)
    known = view(snapshots=(snapshot,))
    made.changed(node(1), known, known)
    for _ in range(2):
        made.changed(node(1), BEFORE, known)


def test_committed_batches_up_to_the_end_are_accepted() -> None:
    look(snapshot_id(2), snapshot_of(COMMITTED[:2]))
    look(snapshot_id(3, epoch=2), snapshot_of(COMMITTED, epoch=2))


@pytest.mark.parametrize("content", [None, b"hollow"])
def test_what_is_no_snapshot_is_for_others_to_find(content: bytes | None) -> None:
    look(snapshot_id(2), content)


@pytest.mark.parametrize(
    ("snapshot", "batches"),
    [
        (snapshot_id(2), COMMITTED[:1]),
        (snapshot_id(2), COMMITTED),
        (snapshot_id(2), []),
        (snapshot_id(2, epoch=2), COMMITTED[:2]),
        (snapshot_id(2), [entry(0), entry(1, crc=9)]),
        (snapshot_id(4, epoch=2), [*COMMITTED, entry(3, epoch=2)]),
        (snapshot_id(2), [COMMITTED[1]]),
    ],
)
def test_anything_else_is_found(snapshot: OffsetAndEpoch, batches: list[Entry]) -> None:
    with pytest.raises(ViolationError, match=f"node 1 has a snapshot up to {snapshot.offset}"):
        look(snapshot, snapshot_of(batches))
