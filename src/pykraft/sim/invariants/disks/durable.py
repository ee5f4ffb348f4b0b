"""What the ordered lane reports as durable is exactly what a power loss now would leave.

If the disk held less, acknowledged records would be lost. If it held more, a truncation would not be durable: the
removed batches could return between newer ones, each of them valid in itself.

Source: ours; Kafka's ``RaftLog.flush`` and ``truncateToEndOffset``; etcd's append ABA story, told for disks.
"""

from __future__ import annotations

from pykraft.sim.invariants.invariant import Invariant, SimulatedNode


class PersistedIsDurable(Invariant):
    """When all storage jobs are done, the log on the platter ends where the node says that it ends.

    This is not checked while part of the log is known to be damaged, because the files then stay as they are for a
    while; nor while the platter has a snapshot that holds more and that the node does not know of yet.
    """

    def persisted(self, node: SimulatedNode) -> None:
        """Compare the platter with the node's own view."""
        assert node.status is not None
        if node.is_damaged or self.facts.platters.has_news(node):
            return
        durable, told = self.facts.platters.end_offset(node), node.status.log_end_offset
        if durable != told:
            raise self.violated(f"the log of node {node.node_id} ends at {told}, on the platter at {durable}")
