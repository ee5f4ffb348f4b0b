"""A leader that a majority hears is not replaced, whatever the rest of the network does.

The voters that have fetched from the leader of an epoch, and the leader itself, deny pre-votes; while they are a
majority nobody can win one, so nobody campaigns. What counts is the time since the candidate began to ask.

Source: KIP-996; Kafka ``RaftEventSimulationTest.StableLeadership`` (star partitions), made general as KAFKA-18439 asks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykraft.core.quorum import majority_of
from pykraft.sim.invariants.invariant import Invariant

if TYPE_CHECKING:
    from pykraft.sim.node import Node
    from pykraft.sim.view import View
    from pykraft.sim.world import World


class StableLeadership(Invariant):
    """Nobody becomes a candidate while a majority heard its leader all the time since the asking began."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._news = 0
        self._hearing: dict[int, tuple[int, int]] = {}
        """Voters that would deny pre-votes: their epoch, and since which change."""
        self._asking: dict[int, int] = {}

    def changed(self, node: Node, was: View, now: View) -> None:
        """Note who hears and who asks; then look at candidates."""
        self._news += 1
        node_id = int(node.node_id)
        if node_id > self.world.voter_count:
            return
        if not (now.leads or now.has_fetched):
            self._hearing.pop(node_id, None)
        elif self._hearing.get(node_id, (-1, 0))[0] != now.epoch:
            self._hearing[node_id] = (now.epoch, self._news)
        if now.is_prospective and not was.is_prospective:
            self._asking[node_id] = self._news
        if now.role == "candidate" and was.is_prospective and self.world.has_pre_votes:
            self._look(node_id, now.epoch)

    def _look(self, candidate_id: int, epoch: int) -> None:
        began = self._asking[candidate_id]
        deniers = [voter for voter, (heard, since) in self._hearing.items() if heard == epoch - 1 and since < began]
        if len(deniers) >= majority_of(self.world.voter_count):
            seen = f"node {candidate_id} became a candidate of epoch {epoch}"
            raise self.violated(f"{seen}, while the majority {sorted(deniers)} heard the leader of epoch {epoch - 1}")
