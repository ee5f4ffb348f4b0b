"""At most one leader per epoch, for ever.

Source: Raft paper §5.2 (Election Safety); Kafka ``RaftEventSimulationTest.SingleLeader``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykraft.sim.invariants.invariant import Invariant

if TYPE_CHECKING:
    from pykraft.sim.node import Node
    from pykraft.sim.world import World


class SingleLeader(Invariant):
    """Who was seen leading each epoch, by any node's account; two nodes never for the same."""

    def __init__(self) -> None:
        self._leaders: dict[int, int] = {}

    def after_event(self, world: World, node: Node) -> None:
        """Compare the node's view with what was seen before."""
        del world
        host = node.host
        leader_id = host.leader_id if host is not None else None
        if host is not None and leader_id is not None:
            known = self._leaders.setdefault(host.epoch, leader_id)
            if known != leader_id:
                raise self.violated(f"epoch {host.epoch} has leaders {known} and {leader_id}")
