"""At most one leader per epoch, for ever.

Source: Raft paper §5.2 (Election Safety); Kafka ``RaftEventSimulationTest.SingleLeader``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykraft.sim.invariants.invariant import Invariant

if TYPE_CHECKING:
    from pykraft.sim.world import World


class SingleLeader(Invariant):
    """Who was seen leading each epoch, by any node's account; two nodes never for the same."""

    def __init__(self) -> None:
        self._leaders: dict[int, int] = {}

    def after_event(self, world: World) -> None:
        """Compare every running node's view with what was seen before."""
        for host in world.hosts():
            leader_id = host.leader_id
            if leader_id is not None and self._leaders.setdefault(host.epoch, leader_id) != leader_id:
                known = self._leaders[host.epoch]
                raise self.violated(f"epoch {host.epoch} has leaders {known} and {leader_id}")
