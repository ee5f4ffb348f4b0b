"""A node grants a vote or a pre-vote only when the request names its own disk or none.

A voter with a new disk has forgotten its votes and its log: it is another replica, and not a voter until the leader
adds it.

Source: KIP-853 §Directory id; KAFKA-14077; Kafka ``KafkaRaftClient.handleVoteRequest`` (INVALID_VOTER_KEY).
"""

from __future__ import annotations

from pykraft.sim.invariants.invariant import Invariant, SimulatedNode, Spoken


class VotesAreOfTheDisk(Invariant):
    """A node that grants a vote has the directory id that the request names."""

    def before_send(self, node: SimulatedNode, spoken: Spoken) -> None:
        """Compare the directory id in the request with the node's."""
        asked = spoken.granted
        if asked is not None and asked.voter_directory_id not in (None, node.key.directory_id):
            what = "pre-vote" if asked.is_pre_vote else "vote"
            seen = f"node {node.node_id} gives {asked.candidate_id} its {what} in epoch {asked.epoch}"
            raise self.violated(f"{seen}, and another disk was asked for it")
