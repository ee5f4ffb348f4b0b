"""A snapshot that a node counts on is whole, and a loss of power could not take it away.

The log before it may be removed at any time, and other replicas are sent to it: so it must be on the platter, with its
name, from the header to the footer, before anybody hears of it; and it is there after a start.

Source: KIP-630 §Snapshot Format; Kafka's ``FileRawSnapshotWriter.freeze``; ALICE (OSDI 2014): rename without fsync.
"""

from __future__ import annotations

from pykraft.sim.facts.facts import Facts
from pykraft.sim.facts.snapshot_bytes import read_snapshot
from pykraft.sim.facts.view import View
from pykraft.sim.invariants.snapshots.new_snapshots import NewSnapshotInvariant
from pykraft.sim.machine.node import Node
from pykraft.types import OffsetAndEpoch


class SnapshotIsDurable(NewSnapshotInvariant):
    """The platter holds each snapshot that a node knows of, whole; and after a start the newest one that it knew of."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._newest: dict[int, OffsetAndEpoch] = {}

    def changed(self, node: Node, was: View, now: View) -> None:
        """Judge those that are new here, and note the newest."""
        super().changed(node, was, now)
        if now.snapshots and now.snapshots != was.snapshots:
            self._newest[int(node.node_id)] = now.snapshots[-1]

    def wiped(self, node: Node) -> None:
        """It has none any more."""
        self._newest.pop(int(node.node_id), None)

    def started(self, node: Node) -> None:
        """Look for the newest one that it knew of before; a newer one may have taken its place, or damage it."""
        known, found = self._newest.get(int(node.node_id)), self.facts.platters.snapshots(node)
        if known is None or self.facts.platters.is_set_aside(node, known):
            return
        if not (found and found[-1].is_at_least(known)):
            raise self.violated(f"node {node.node_id} had the snapshot {known}, and begins with {list(found)}")

    def judge(self, node: Node, snapshot_id: OffsetAndEpoch, content: bytes | None) -> None:
        """Look whether all of it is on the platter."""
        found = None if content is None else read_snapshot(content)
        if found is None or not found.is_whole or found.epoch != snapshot_id.epoch:
            on_platter = "nothing" if content is None else f"{len(content)} bytes that are none"
            raise self.violated(
                f"node {node.node_id} counts on the snapshot {snapshot_id}, on its disk is {on_platter}"
            )
