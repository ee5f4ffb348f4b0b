"""The application of one process: a few registers, fed by everything that is committed.

It is given the batches like any listener, applies their values in order, and answers the reads that clients asked of
this process: a read is a value of its own in the log, and finds what was written before it.

Source: Raft dissertation §6.3 and §6.4 (a read through the log is linearizable).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pykraft.host.delivery import CommittedBatch
from pykraft.sim.history import Operation, Registers
from pykraft.types import Epoch, NodeId

if TYPE_CHECKING:
    from pykraft.sim.node import Node
    from pykraft.sim.world import World


class Application:
    """Listener of one process."""

    def __init__(self, world: World, node: Node) -> None:
        self.reads: dict[bytes, Operation] = {}
        """Reads that were asked of this process, by their values."""
        self._world = world
        self._node = node
        self._registers = Registers()

    def on_commit(self, batches: Sequence[CommittedBatch]) -> None:
        """Committed batches, in order."""
        for values in self._world.watch.delivered(self._node, batches):
            for value in values:
                found = self._registers.apply(value)
                operation = self.reads.pop(value, None)
                if operation is not None:
                    operation.read, operation.read_us = found, self._world.clock.now_us
        self._world.delivered(self._node, batches[-1].end_offset)

    def on_leader_change(self, epoch: Epoch, leader_id: NodeId | None) -> None:
        """News of a leader."""
        news = f"epoch {epoch}" if leader_id is None else f"leader {leader_id} of epoch {epoch}"
        self._world.trace.note(self._node.node_id, f"hears of {news}")
        self._world.watch.told_leader(self._node, epoch, leader_id)
