"""A download goes on where the file ends that holds what was fetched of it, also after a restart.

What is on the disk already is not fetched again: on a slow link a large snapshot would never be whole. And nothing is
left out: the next bytes belong behind the last ones.

Source: ours; KIP-630 (Kafka begins anew).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykraft.sim.invariants.invariant import Invariant
from pykraft.snapshot.files import part_path
from pykraft.types import Epoch

if TYPE_CHECKING:
    from pykraft.sim.node import Node
    from pykraft.sim.spoken import Spoken


class DownloadGoesOnWhereItIs(Invariant):
    """A slice of a snapshot is asked for at the end of the file that it goes into."""

    def before_send(self, node: Node, spoken: Spoken) -> None:
        """Compare the position with the size of the part."""
        asked, process = spoken.sliced, node.process
        if asked is None or process is None:
            return
        path = part_path(node.config.partition_directory, asked.snapshot_id, leader_epoch=Epoch(spoken.epoch))
        directory = node.disk.directory(path.parent)
        part = directory.cached.get(path.name) if directory is not None else None
        size_bytes = len(part.cached) if part is not None else 0
        if asked.position != size_bytes:
            seen = f"node {node.node_id} asks for the snapshot {asked.snapshot_id} from {asked.position} on"
            raise self.violated(f"{seen}, and holds {size_bytes} bytes of it")
