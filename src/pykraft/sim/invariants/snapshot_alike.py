"""Two replicas that have a snapshot of one id have the same bytes, whoever took it and however it came.

Applications of a world write the same records in the same order, and all batches carry the time of the last record of
the log; so a difference is a mistake of somebody: of another state, of a time of day, of bytes that were mixed.

Source: ours; KIP-630 promises the same records and not the same bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykraft.sim.invariants.invariant import Invariant

if TYPE_CHECKING:
    from pykraft.sim.node import Node
    from pykraft.sim.view import View
    from pykraft.sim.world import World
    from pykraft.types import OffsetAndEpoch


class SnapshotsAlike(Invariant):
    """The first snapshot of an id says which bytes it has; all others must agree."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._known: dict[OffsetAndEpoch, bytes] = {}

    def changed(self, node: Node, was: View, now: View) -> None:
        """Compare snapshots that are new here."""
        if now.snapshots == was.snapshots:
            return
        for snapshot_id in now.snapshots:
            content = None if snapshot_id in was.snapshots else self.world.durable_snapshot(node, snapshot_id)
            if content is not None and self._known.setdefault(snapshot_id, content) != content:
                seen = f"node {node.node_id} has another snapshot up to {snapshot_id.offset}"
                raise self.violated(f"{seen} of epoch {snapshot_id.epoch} than was seen before")
