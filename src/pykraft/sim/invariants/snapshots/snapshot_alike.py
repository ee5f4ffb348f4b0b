"""Snapshots with the same id have the same bytes on all replicas, whichever replica took them.

Applications of a world write the same records in the same order, and all batches have the timestamp of the last record
that the snapshot covers. So a difference is a bug: a wrong state, the time of day as timestamp, or wrong bytes.

Source: ours; KIP-630 promises the same records and not the same bytes.
"""

from __future__ import annotations

from pykraft.sim.invariants.invariant import NewSnapshotInvariant, OffsetAndEpoch, SimulatedNode


class SnapshotsAlike(NewSnapshotInvariant):
    """All snapshots of one id have the same bytes as the first one that was seen."""

    def _begin(self) -> None:
        self._known: dict[OffsetAndEpoch, bytes] = {}

    def judge(self, node: SimulatedNode, snapshot_id: OffsetAndEpoch, content: bytes | None) -> None:
        """Compare the snapshot with the first one of its id."""
        if content is not None and self._known.setdefault(snapshot_id, content) != content:
            seen = f"node {node.node_id} has another snapshot up to {snapshot_id.offset}"
            raise self.violated(f"{seen} of epoch {snapshot_id.epoch} than was seen before")
