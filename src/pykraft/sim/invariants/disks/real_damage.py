"""A node calls its log damaged only when its disk has lied.

What a crash leaves half written is a torn tail, and no damage: a node that takes one for the other leaves elections to
others for nothing, and a cluster whose power failed would elect nobody.

Source: Protocol-Aware Recovery for Consensus-Based Storage (FAST 2018); the recovery point is ours.
"""

from __future__ import annotations

from pykraft.log.lane import Job, WriteQuarantine
from pykraft.sim.facts.facts import Facts
from pykraft.sim.invariants.invariant import Invariant
from pykraft.sim.machine.node import Node


class DamageIsReal(Invariant):
    """Nobody goes into quarantine whose platter holds what was written to it."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._damaged: set[int] = set()

    def started(self, node: Node) -> None:
        """Look at what recovery says."""
        if node.is_damaged:
            self._look(node)

    def submitted(self, node: Node, job: Job) -> None:
        """Look at what is found while the node runs."""
        if isinstance(job, WriteQuarantine):
            self._look(node)

    def persisted(self, node: Node) -> None:
        """A quarantine is over when its note is gone for good; a node that ends before finds it again."""
        if not node.is_damaged:
            self._damaged.discard(int(node.node_id))

    def _look(self, node: Node) -> None:
        """Once damaged, a node stays so until it is mended, also when the rot is cut off."""
        node_id = int(node.node_id)
        if node_id not in self._damaged and not node.disk.is_rotten:
            raise self.violated(f"node {node_id} calls its log damaged, its disk holds what was written")
        self._damaged.add(node_id)
