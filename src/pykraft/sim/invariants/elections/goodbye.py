"""A follower whose leader resigns without naming successors campaigns as soon as the leader confirms that.

A leader that was restarted knows nobody's log, so it names no successors. No other voter would campaign earlier, so
while this one waits there is no leader. Anyone can send the request; the leader's own answer confirms it (ADR 129).

Source: KIP-595 §EndQuorumEpoch; Kafka ``KafkaRaftClient.endEpochElectionBackoff`` (no successors: no back-off).
"""

from __future__ import annotations

from pykraft.sim.invariants.invariant import Invariant, SimulatedNode, View


class GoodbyesAreHeeded(Invariant):
    """No voter that may campaign still follows a leader that has sent it EndQuorumEpoch and denies that it leads."""

    def _begin(self) -> None:
        self._heeded: dict[int, int] = {}
        """How many such requests each process has heeded: it campaigned, or has another leader."""

    def started(self, node: SimulatedNode) -> None:
        """A new process has received nothing yet."""
        self._heeded.pop(int(node.node_id), None)

    def after_event(self, node: SimulatedNode, now: View) -> None:
        """Check a follower that has received such a request and no longer takes its leader for alive."""
        process, status, node_id = node.process, node.status, int(node.node_id)
        departures = process.wiretap.departures if process is not None else []
        if len(departures) <= self._heeded.get(node_id, 0):
            return
        told = departures[-1]
        is_of_leader = (told.epoch, told.leader_id) == (now.epoch, now.leader_id) and now.role == "follower"
        # While the follower hears its leader, the request alone proves nothing.
        if is_of_leader and now.has_fetched:
            return
        self._heeded[node_id] = len(departures)
        # A voter that never leads leaves the next election to the others, and grants pre-votes from now on.
        is_fit = status is not None and status.is_proven and not node.is_damaged and not node.config.raft.never_leads
        may_campaign = is_fit and process is not None and not process.is_leaving
        if is_of_leader and may_campaign and not told.has_successors and told.leader_id in now.voters.ids:
            seen = f"node {node_id} waits, though {told.leader_id} leads epoch {told.epoch} no more"
            raise self.violated(f"{seen} and names no successor")
