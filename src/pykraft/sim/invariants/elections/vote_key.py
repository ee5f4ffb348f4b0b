"""Nobody grants a vote, or a pre-vote, that was asked of another disk than its own.

A voter with a new disk has forgotten how it voted, and what it held: it is another replica, and no voter until the
leader has made it one.

Source: KIP-853 §Directory id; KAFKA-14077; Kafka ``KafkaRaftClient.handleVoteRequest`` (INVALID_VOTER_KEY).
"""

from __future__ import annotations

from pykraft.sim.invariants.invariant import Invariant
from pykraft.sim.machine.node import Node
from pykraft.sim.machine.spoken import Spoken


class VotesAreOfTheDisk(Invariant):
    """Whoever grants has the directory id that was asked."""

    def before_send(self, node: Node, spoken: Spoken) -> None:
        """Compare the directory id that was asked with that of the node."""
        asked = spoken.granted
        if asked is not None and asked.voter_directory_id not in (None, node.key.directory_id):
            what = "pre-vote" if asked.is_pre_vote else "vote"
            seen = f"node {node.node_id} gives {asked.candidate_id} its {what} in epoch {asked.epoch}"
            raise self.violated(f"{seen}, and another disk was asked for it")
