"""A node reports its log as damaged only when its disk has lied.

A crash leaves a torn tail, which is not damage. A node that took a torn tail for damage would needlessly stay out of
elections, and a cluster that lost power would elect nobody.

Source: Protocol-Aware Recovery for Consensus-Based Storage (FAST 2018); the recovery point is ours.
"""

from __future__ import annotations

from pykraft.core.effects import EnterQuarantine
from pykraft.sim.invariants.invariant import Invariant, Job, SimulatedNode


class DamageIsReal(Invariant):
    """No node is in quarantine whose platter holds what was written to it."""

    def _begin(self) -> None:
        self._damaged: set[int] = set()

    def started(self, node: SimulatedNode) -> None:
        """Check what recovery reports."""
        if node.is_damaged:
            self._look(node)

    def submitted(self, node: SimulatedNode, job: Job) -> None:
        """Check damage that the running node found."""
        if isinstance(job, EnterQuarantine):
            self._look(node)

    def persisted(self, node: SimulatedNode) -> None:
        """The quarantine is over once its file is durably removed; a node that ends earlier finds the file again."""
        if not node.is_damaged:
            self._damaged.discard(int(node.node_id))

    def _look(self, node: SimulatedNode) -> None:
        """A damaged node stays in quarantine until it is repaired, even when the rot has been cut off."""
        node_id = int(node.node_id)
        if node_id not in self._damaged and not node.disk.is_rotten:
            raise self.violated(f"node {node_id} calls its log damaged, its disk holds what was written")
        self._damaged.add(node_id)
