"""Base of oracles that check each snapshot once, when a node begins to rely on it."""

from __future__ import annotations

from pykraft.sim.invariants.invariant import Invariant, OffsetAndEpoch, SimulatedNode, View


class NewSnapshotInvariant(Invariant):
    """Calls ``judge`` for each new snapshot of a node."""

    def changed(self, node: SimulatedNode, was: View, now: View) -> None:
        """Check the new snapshots of this node."""
        if now.snapshots == was.snapshots:
            return
        for snapshot_id in now.snapshots:
            if snapshot_id not in was.snapshots:
                self.judge(node, snapshot_id, self.facts.platters.snapshot(node, snapshot_id))

    def judge(self, node: SimulatedNode, snapshot_id: OffsetAndEpoch, content: bytes | None) -> None:
        """Check one new snapshot; ``content`` is what a power loss would leave of it, None if nothing."""
