"""A follower whose leader resigns without naming successors campaigns at once.

A leader that was restarted knows nobody's log, so it names no successors. No other voter would campaign earlier, so
while this one waits there is no leader.

Source: KIP-595 §EndQuorumEpoch; Kafka ``KafkaRaftClient.endEpochElectionBackoff`` (no successors: no back-off).
"""

from __future__ import annotations

from pykraft.sim.facts.view import View
from pykraft.sim.invariants.invariant import Invariant
from pykraft.sim.machine.node import SimulatedNode


class GoodbyesAreHeeded(Invariant):
    """No voter that may campaign still follows a leader after its EndQuorumEpoch without successors."""

    def _begin(self) -> None:
        self._departures: dict[int, int] = {}

    def started(self, node: SimulatedNode) -> None:
        """A new process has received nothing yet."""
        self._departures.pop(int(node.node_id), None)

    def after_event(self, node: SimulatedNode, now: View) -> None:
        """Check what a node does that has just received such a request."""
        process, node_id = node.process, int(node.node_id)
        departures = process.wiretap.departures if process is not None else []
        known, self._departures[node_id] = self._departures.get(node_id, 0), len(departures)
        if len(departures) <= known:
            return
        told, status = departures[-1], node.status
        is_of_leader = (told.epoch, told.leader_id) == (now.epoch, now.leader_id) and now.role == "follower"
        # A voter that never leads leaves the next election to the others, and grants pre-votes from now on.
        grants = node.config.raft.never_leads and not now.has_fetched
        is_fit = status is not None and status.is_proven and not node.is_damaged and not grants
        may_campaign = is_fit and process is not None and not process.is_leaving
        if is_of_leader and may_campaign and not told.has_successors and told.leader_id in now.voters.ids:
            seen = f"node {node_id} waits, though {told.leader_id} leads epoch {told.epoch} no more"
            raise self.violated(f"{seen} and names no successor")
