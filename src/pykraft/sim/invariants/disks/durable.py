"""What the ordered lane calls durable is what a power loss now would leave: no less, and no more.

Less would lose what was acknowledged. More is a truncation that is not durable: what was cut off could come back
between batches that were written over it, each of them sound in itself.

Source: ours; Kafka's ``RaftLog.flush`` and ``truncateToEndOffset``; etcd's append ABA story, told for disks.
"""

from __future__ import annotations

from pykraft.sim.invariants.invariant import Invariant
from pykraft.sim.machine.node import Node


class PersistedIsDurable(Invariant):
    """When all storage jobs are done, the log ends on the platter where the node says that it ends.

    Not while part of the log is known to be damaged: then the files are left as they are for a while. Nor while a
    snapshot that holds more is on the platter, and its node has not heard of it.
    """

    def persisted(self, node: Node) -> None:
        """Compare the platter with the node's own view."""
        assert node.host is not None
        if node.is_damaged or self.facts.platters.has_news(node):
            return
        durable, told = self.facts.platters.end_offset(node), node.host.log_end_offset
        if durable != told:
            raise self.violated(f"the log of node {node.node_id} ends at {told}, on the platter at {durable}")
