"""The high watermark never goes back, and what is below it is durable on a majority.

Source: Raft paper §5.3–5.4 (Leader Completeness); Kafka ``RaftEventSimulationTest.MonotonicHighWatermark``
and ``MajorityReachedHighWatermark``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykraft.core.quorum import majority_of
from pykraft.sim.invariants.invariant import Invariant

if TYPE_CHECKING:
    from pykraft.sim.node import Node
    from pykraft.sim.world import World


class MonotonicHighWatermark(Invariant):
    """The high watermark of the leader with the highest epoch never decreases."""

    def __init__(self) -> None:
        self._highest = 0
        self._epoch = 0

    def after_event(self, world: World, node: Node) -> None:
        """Look at the newest leader there ever was only: an older one may still live and not know."""
        del world
        leader = node.host
        if leader is None or leader.epoch < self._epoch or leader.high_watermark is None or leader.role != "leader":
            return
        self._epoch = leader.epoch
        if leader.high_watermark < self._highest:
            seen = f"leader {leader.node_id} of epoch {leader.epoch} is at {leader.high_watermark}"
            raise self.violated(f"{seen}, but {self._highest} was reached before")
        self._highest = leader.high_watermark


class MajorityHoldsHighWatermark(Invariant):
    """At least a majority of the voters, running or not, has everything below the high watermark on disk.

    What counts is what a power loss now could not take away.
    """

    def __init__(self) -> None:
        self._checked = 0

    def after_event(self, world: World, node: Node) -> None:
        """Look when a leader's high watermark moved beyond all before it."""
        leader = node.host
        if leader is None or (leader.high_watermark or 0) <= self._checked or leader.role != "leader":
            return
        assert leader.high_watermark is not None
        self._checked = leader.high_watermark
        ends = {node.node_id: world.durable_end_offset(node) for node in world.voters()}
        holding = sum(end >= self._checked for end in ends.values())
        if holding < majority_of(len(ends)):
            raise self.violated(f"{self._checked} is committed, but durable log ends are {ends}")
