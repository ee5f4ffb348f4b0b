"""A node stops only when it is asked to, or when its disk fails.

Source: ours; Kafka's ``FaultHandler`` (what is fatal ends the process, and nothing else does).
"""

from __future__ import annotations

from pathlib import Path

from pykraft.errors import CorruptionError, ReadError
from pykraft.log.paths import LOG
from pykraft.sim.invariants.invariant import Invariant, SimulatedNode
from pykraft.snapshot.files import parse_snapshot_file


class NodesStayUp(Invariant):
    """No host stops without being asked to, unless its disk failed.

    A lost sector must not keep a node down, and a damaged snapshot must not end one that has a newer snapshot.
    """

    def stopped(self, node: SimulatedNode, error: Exception | None) -> None:
        """Check why it stopped; a disk that lies may cause anything."""
        is_start = node.process is None
        if is_start and isinstance(error, ReadError) and str(error.path).endswith(LOG):
            raise self.violated(f"node {node.node_id} does not start: {error}")
        if isinstance(error, CorruptionError) and self._is_of_no_use(node, error.path):
            raise self.violated(f"node {node.node_id} stopped though a newer snapshot is there: {error}")
        if error is not None and not node.disk.explains(error) and not node.disk.is_rotten:
            raise self.violated(f"node {node.node_id} stopped: {error}")

    def _is_of_no_use(self, node: SimulatedNode, path: object) -> bool:
        """True for a snapshot older than the newest one that the running process knows: it is not needed."""
        found = parse_snapshot_file(Path(str(path)).name)
        raft = node.host.raft if node.host is not None else None
        return (
            found is not None
            and raft is not None
            and any(found.snapshot_id.offset < each.offset for each in raft.log.snapshots)
        )
