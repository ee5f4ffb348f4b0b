"""A snapshot that a node relies on is whole, and survives a power loss.

The log before it may be removed at any time, and other replicas are told to fetch it. So it must be on the platter
under its name, from header to footer, before anybody learns of it, and must still be there after a restart.

Source: KIP-630 §Snapshot Format; Kafka's ``FileRawSnapshotWriter.freeze``; ALICE (OSDI 2014): rename without fsync.
"""

from __future__ import annotations

from pykraft.sim.facts.application_state import read_snapshot
from pykraft.sim.invariants.invariant import NewSnapshotInvariant, OffsetAndEpoch, SimulatedNode, View


class SnapshotIsDurable(NewSnapshotInvariant):
    """The platter holds each snapshot that a node knows, whole; and after a start the newest one that the node knew."""

    def _begin(self) -> None:
        self._newest: dict[int, OffsetAndEpoch] = {}

    def changed(self, node: SimulatedNode, was: View, now: View) -> None:
        """Check the new snapshots, and remember the newest."""
        super().changed(node, was, now)
        if now.snapshots and now.snapshots != was.snapshots:
            self._newest[int(node.node_id)] = now.snapshots[-1]

    def wiped(self, node: SimulatedNode) -> None:
        """The new disk has no snapshots."""
        self._newest.pop(int(node.node_id), None)

    def started(self, node: SimulatedNode) -> None:
        """Look for the newest one that it knew, unless a newer one replaced it or a start set it aside as damaged."""
        known, found = self._newest.get(int(node.node_id)), self.facts.platters.snapshots(node)
        if known is None or self.facts.platters.is_set_aside(node, known):
            return
        if not (found and found[-1].is_at_least(known)):
            raise self.violated(f"node {node.node_id} had the snapshot {known}, and begins with {list(found)}")

    def judge(self, node: SimulatedNode, snapshot_id: OffsetAndEpoch, content: bytes | None) -> None:
        """Check that all of it is on the platter."""
        found = None if content is None else read_snapshot(content)
        if found is None or not found.is_whole or found.epoch != snapshot_id.epoch:
            on_platter = "nothing" if content is None else f"{len(content)} bytes of something else"
            raise self.violated(
                f"node {node.node_id} counts on the snapshot {snapshot_id}, on its disk is {on_platter}"
            )
