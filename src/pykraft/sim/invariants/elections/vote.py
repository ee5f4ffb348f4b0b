"""A vote is durable before the node sends it, and a node votes once per epoch, even across restarts.

A candidate's vote for itself counts: its Vote requests are a promise, too.

Source: Raft paper §5.2 (each server votes for at most one candidate in a term) and §5.1 (votedFor is persistent).
"""

from __future__ import annotations

from pykraft.sim.invariants.invariant import Invariant, SimulatedNode, Spoken


class OneVote(Invariant):
    """Each node votes for one candidate in an epoch, and the vote is durable before anybody else learns of it."""

    def _begin(self) -> None:
        self._votes: dict[tuple[int, int], int] = {}

    def wiped(self, node: SimulatedNode) -> None:
        """The node has forgotten its votes, but none of them counts any more when it returns."""
        self._votes = {key: candidate_id for key, candidate_id in self._votes.items() if key[0] != node.node_id}

    def forgot_votes(self, node: SimulatedNode) -> None:
        """As after a wipe."""
        self.wiped(node)

    def emptied(self, node: SimulatedNode) -> None:
        """Its votes may still count, so it must not vote otherwise in any of those epochs."""

    def before_send(self, node: SimulatedNode, spoken: Spoken) -> None:
        """Compare a vote with the platter and with former votes."""
        if spoken.candidate_id is None:
            return
        election = self.facts.platters.election(node)
        seen = f"node {node.node_id} votes for {spoken.candidate_id} in epoch {spoken.epoch}"
        if election.epoch == spoken.epoch and election.voted_id != spoken.candidate_id:
            raise self.violated(f"{seen}, its disk knows a vote for {election.voted_id}")
        before = self._votes.setdefault((int(node.node_id), spoken.epoch), spoken.candidate_id)
        if before != spoken.candidate_id:
            raise self.violated(f"{seen}, and voted for {before} before")
