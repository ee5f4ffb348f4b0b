"""An append is rejected for a full buffer only while the buffer is full.

An append that finds the buffer full of prepared appends schedules them, because nothing else may ever do so, and uses
the room that this makes.

Source: Kafka ``KafkaRaftClient.append`` (BufferAllocationException); that an append makes room is ours.
"""

from __future__ import annotations

from pykraft.core.state import Leader
from pykraft.sim.invariants.invariant import Invariant, Operation


class RoomIsUsed(Invariant):
    """No leader rejects an append for a full buffer and has room for two batches at the end of the same step."""

    def decided(self, operation: Operation) -> None:
        """Check how full the buffer is; the end of the step may have taken one batch out of it."""
        node = self.facts.nodes[operation.node_id]
        state = node.host.raft.state if node.host is not None and node.host.raft is not None else None
        if not operation.lacked_room or operation.is_prepared or not isinstance(state, Leader):
            return
        waiting, most = state.accumulation.waiting_count, node.config.raft.accumulated_batches_max
        if waiting + 1 < most:
            seen = f"leader {operation.node_id} has no room for operation {operation.number}"
            raise self.violated(f"{seen}, and {waiting} batches in a buffer of {most}")
