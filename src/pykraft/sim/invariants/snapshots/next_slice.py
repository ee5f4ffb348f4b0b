"""A download continues where its bytes end: it skips none and fetches none twice.

The partial snapshot is on the disk, or at least in the page cache, and the next request asks for the byte after its
end. A position from before a crash, or from another download, would leave a gap in the file.

Source: KIP-630 §FetchSnapshot (Position is the size of what was fetched); Kafka's ``RawSnapshotWriter.sizeInBytes``.
"""

from __future__ import annotations

from pykraft.sim.invariants.invariant import Invariant, SimulatedNode, Spoken
from pykraft.snapshot.files import part_path
from pykraft.types import Epoch


class NextSliceFollows(Invariant):
    """A FetchSnapshot asks its leader for the byte after those that its node has of this leader's snapshot."""

    def before_send(self, node: SimulatedNode, spoken: Spoken) -> None:
        """Compare the position with the size of the partial snapshot; requests to a former leader do not count."""
        asked, status = spoken.sliced, node.status
        if asked is None or status is None or (spoken.epoch, spoken.target_id) != (status.epoch, status.leader_id):
            return
        path = part_path(node.config.partition_directory, asked.snapshot_id, leader_epoch=Epoch(spoken.epoch))
        part = node.disk.content(path)
        size_bytes = len(part) if part is not None else None
        if size_bytes != asked.position:
            seen = f"node {node.node_id} asks for byte {asked.position} of the snapshot {asked.snapshot_id}"
            raise self.violated(f"{seen}, and has {'none' if size_bytes is None else size_bytes} of them")
