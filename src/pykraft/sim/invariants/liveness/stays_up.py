"""A node stops only when it is asked to, or when its disk fails.

Source: ours; Kafka's ``FaultHandler`` (what is fatal ends the process, and nothing else does).
"""

from __future__ import annotations

from pykraft.errors import ReadError
from pykraft.log.paths import LOG
from pykraft.sim.invariants.invariant import Invariant
from pykraft.sim.machine.node import Node


class NodesStayUp(Invariant):
    """No host gives up that was not asked to leave, unless its disk failed. A lost sector keeps no node down."""

    def stopped(self, node: Node, error: Exception | None) -> None:
        """Look why; a disk that lies may lead to anything."""
        is_start = node.process is None
        if is_start and isinstance(error, ReadError) and str(error.path).endswith(LOG):
            raise self.violated(f"node {node.node_id} does not start: {error}")
        if error is not None and not node.disk.explains(error) and not node.disk.is_rotten:
            raise self.violated(f"node {node.node_id} stopped: {error}")
