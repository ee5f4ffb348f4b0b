"""A listener is given each committed record once, in order, from the beginning on.

Source: Kafka's ``RaftClient.Listener``; ``RaftEventSimulationTest`` (the counter of a listener grows in steps of 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pykraft.sim.invariants.invariant import Invariant

if TYPE_CHECKING:
    from pykraft.host.delivery import CommittedBatch
    from pykraft.sim.node import Node
    from pykraft.sim.world import World


class DeliveredOnceInOrder(Invariant):
    """Each batch that a listener is given begins where the one before ended; the first one of a process at 0."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._next: dict[int, int] = {}

    def started(self, node: Node) -> None:
        """A new process has new listeners."""
        self._next[int(node.node_id)] = 0

    def delivered(self, node: Node, batches: Sequence[CommittedBatch]) -> None:
        """Compare with where the one before ended."""
        node_id = int(node.node_id)
        for batch in batches:
            expected = self._next.get(node_id, 0)
            if batch.base_offset != expected:
                raise self.violated(f"node {node_id} is given offset {batch.base_offset}, {expected} is next")
            self._next[node_id] = batch.end_offset
