"""What is below the high watermark is durable on a majority: the same records, not just as many.

What counts is what a power loss now could not take away, on voters that run and on voters that do not. A voter whose
disk was replaced counts until it may come back: its word may still be on its way, and it has no vote without it.

Source: Raft paper §5.3 (committed entries); Kafka ``RaftEventSimulationTest.MajorityReachedHighWatermark``, made
stricter: Kafka compares log ends in memory. KIP-630: a snapshot stands for the records before its end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykraft.core.quorum import majority_of
from pykraft.sim.invariants.invariant import Invariant

if TYPE_CHECKING:
    from pykraft.sim.node import Node
    from pykraft.sim.view import View
    from pykraft.sim.world import World


class MajorityHoldsHighWatermark(Invariant):
    """A majority of the voters has the leader's last committed batch on disk when the high watermark reaches it."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._checked = 0

    def changed(self, node: Node, was: View, now: View) -> None:
        """Look when a leader's high watermark moved beyond all before it."""
        del was
        high_watermark = now.high_watermark
        if not now.leads or high_watermark is None or high_watermark <= self._checked:
            return
        self._checked = high_watermark
        last = self.world.ledger(node).at(high_watermark - 1)
        voters = self.world.voters()
        away = self.world.atlas.waiting
        holding = [
            int(voter.node_id)
            for voter in voters
            if voter.node_id in away or (last is not None and self.world.durably_holds(voter, last))
        ]
        if last is None or len(holding) < majority_of(len(voters)):
            seen = f"leader {node.node_id} of epoch {now.epoch} calls {high_watermark} committed"
            raise self.violated(f"{seen}, of {len(voters)} voters only {holding} have its last batch on disk")
