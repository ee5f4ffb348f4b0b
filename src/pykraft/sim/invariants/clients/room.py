"""An append is refused for a full buffer only while the buffer is full.

What is only prepared makes room as soon as somebody appends, since nothing else may ever schedule it: the append that
makes the room has it.

Source: Kafka ``KafkaRaftClient.append`` (BufferAllocationException); that an append makes room is ours.
"""

from __future__ import annotations

from pykraft.core.state import Leader
from pykraft.sim.facts.history import Operation
from pykraft.sim.invariants.invariant import Invariant


class RoomIsUsed(Invariant):
    """No leader refuses an append for a full buffer, and has room for two batches when the same step is over."""

    def decided(self, operation: Operation) -> None:
        """Look how full the buffer is; the end of the step may have taken one batch out of it."""
        node = self.facts.nodes[operation.node_id]
        state = node.host.raft.state if node.host is not None and node.host.raft is not None else None
        if not operation.lacked_room or operation.is_prepared or not isinstance(state, Leader):
            return
        waiting, most = state.accumulation.waiting_count, node.config.raft.accumulated_batches_max
        if waiting + 1 < most:
            seen = f"leader {operation.node_id} has no room for operation {operation.number}"
            raise self.violated(f"{seen}, and {waiting} batches in a buffer of {most}")
