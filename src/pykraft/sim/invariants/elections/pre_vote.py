"""A voter denies a pre-vote to a candidate with a long enough log only because it has a leader.

Otherwise an election waits for a timeout that nobody needs: with five voters, those whose leader has left would still
deny the successor that it named.

A damaged or unproven voter cannot compare logs. A candidate with another directory than the voter knew as a leader
counts for nobody (ADR 130).

Source: KIP-996; ADR 129 (a follower whose leader has left grants, which Kafka's does not).
"""

from __future__ import annotations

from pykraft.sim.invariants.invariant import Invariant, SimulatedNode, Spoken


class PreVotesAreGranted(Invariant):
    """A node denies a pre-vote to a log at least as long as its own only if it leads, or hears a leader that stays."""

    def _begin(self) -> None:
        self._wiped: set[int] = set()

    def wiped(self, node: SimulatedNode) -> None:
        """A voter may come back with another directory."""
        self._wiped.add(int(node.node_id))

    def before_send(self, node: SimulatedNode, spoken: Spoken) -> None:
        """Judge the voter as it was when the request came."""
        asked = spoken.denied
        if asked is None or asked.may_be_denied or asked.is_voter_damaged or asked.voter_log is None:
            return
        is_other_directory = asked.candidate_id in self._wiped or asked.candidate_id in self.facts.claims.twin_ids
        if asked.candidate_log.is_at_least(asked.voter_log) and not is_other_directory:
            seen = f"node {node.node_id} denies {asked.candidate_id} its pre-vote in epoch {asked.epoch}"
            raise self.violated(f"{seen}, without a leader and with a log that is no longer")
