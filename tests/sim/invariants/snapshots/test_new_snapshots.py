"""Each snapshot of a node is judged once."""

from __future__ import annotations

from typing import Any

from pykraft.sim.invariants.snapshots.new_snapshots import NewSnapshotInvariant
from pykraft.types import OffsetAndEpoch
from tests.sim.invariants.fakes import BEFORE, node, snapshot_id, view, world


class Judge(NewSnapshotInvariant):
    def __init__(self, where: Any) -> None:
        super().__init__(where)
        self.judged: list[tuple[OffsetAndEpoch, bytes | None]] = []

    def judge(self, node: Any, snapshot_id: OffsetAndEpoch, content: bytes | None) -> None:
        self.judged.append((snapshot_id, content))


def test_only_new_snapshots_are_judged_with_what_is_durable_of_them() -> None:
    where = world()
    where.contents[1, snapshot_id(5)] = b"five"
    made = Judge(where)
    two, three = view(snapshots=(snapshot_id(3), snapshot_id(5))), view(snapshots=(snapshot_id(5), snapshot_id(7)))
    made.changed(node(1), BEFORE, two)
    made.changed(node(1), two, two)
    made.changed(node(1), two, three)
    assert made.judged == [(snapshot_id(3), None), (snapshot_id(5), b"five"), (snapshot_id(7), None)]
