"""A leader that a majority hears is not replaced, whatever the rest of the network does.

The leader of an epoch, and the nodes that have fetched from it, deny pre-votes. While they are a majority of the voters
that a node asks, it cannot win the pre-vote, so it must not become a candidate. What counts is the time since the node
began to ask, and the voters that it knew then.

Source: KIP-996; Kafka ``RaftEventSimulationTest.StableLeadership`` (star partitions), made general as KAFKA-18439 asks.
"""

from __future__ import annotations

from pykraft.core.quorum import majority_of
from pykraft.sim.facts.view import View
from pykraft.sim.invariants.invariant import Invariant
from pykraft.sim.machine.node import SimulatedNode
from pykraft.types import VoterSet


class StableLeadership(Invariant):
    """No node becomes a candidate if a majority has heard the leader since the node began to ask for pre-votes."""

    def _begin(self) -> None:
        self._news = 0
        self._hearing: dict[int, tuple[int, int]] = {}
        """Nodes that would deny pre-votes: their epoch, and since which change."""
        self._asking: dict[int, tuple[int, VoterSet]] = {}
        """Nodes that ask for pre-votes: since which change, and which voters."""

    def changed(self, node: SimulatedNode, was: View, now: View) -> None:
        """Remember who hears a leader and who asks for pre-votes; then check candidates."""
        self._news += 1
        node_id = int(node.node_id)
        if not (now.leads or now.has_fetched):
            self._hearing.pop(node_id, None)
        elif self._hearing.get(node_id, (-1, 0))[0] != now.epoch:
            self._hearing[node_id] = (now.epoch, self._news)
        if now.is_prospective and not was.is_prospective:
            self._asking[node_id] = self._news, now.voters
        if now.role == "candidate" and was.is_prospective and self.facts.members.has_pre_votes:
            self._look(node_id, now.epoch)

    def _look(self, candidate_id: int, epoch: int) -> None:
        began, voters = self._asking[candidate_id]
        hearing = [node_id for node_id, (heard, since) in self._hearing.items() if heard == epoch - 1 and since < began]
        deniers = [node_id for node_id in hearing if node_id in voters.ids]
        if len(deniers) >= majority_of(len(voters)):
            seen = f"node {candidate_id} became a candidate of epoch {epoch}"
            raise self.violated(f"{seen}, while the majority {sorted(deniers)} heard the leader of epoch {epoch - 1}")
