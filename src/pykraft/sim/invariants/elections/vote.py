"""A vote is on disk before it is spoken of, and none is cast twice in an epoch: not even across restarts.

Votes for oneself count: asking for votes is a promise, too.

Source: Raft paper §5.2 (each server votes for at most one candidate in a term) and §5.1 (votedFor is persistent).
"""

from __future__ import annotations

from pykraft.sim.facts.facts import Facts
from pykraft.sim.invariants.invariant import Invariant
from pykraft.sim.machine.node import Node
from pykraft.sim.machine.spoken import Spoken


class OneVote(Invariant):
    """Each node votes for one candidate in an epoch, and its disk knows before anybody else."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._votes: dict[tuple[int, int], int] = {}

    def wiped(self, node: Node) -> None:
        """It does not know how it voted; none of those votes counts any more when it is back."""
        self._votes = {key: candidate_id for key, candidate_id in self._votes.items() if key[0] != node.node_id}

    def forgot_votes(self, node: Node) -> None:
        """As after a wipe."""
        self.wiped(node)

    def emptied(self, node: Node) -> None:
        """Its votes may still count: it must not give another one in any of those epochs."""

    def before_send(self, node: Node, spoken: Spoken) -> None:
        """Compare a vote with the platter and with what was said before."""
        if spoken.candidate_id is None:
            return
        election = self.facts.platters.election(node)
        seen = f"node {node.node_id} votes for {spoken.candidate_id} in epoch {spoken.epoch}"
        if election.epoch == spoken.epoch and election.voted_id != spoken.candidate_id:
            raise self.violated(f"{seen}, its disk knows a vote for {election.voted_id}")
        before = self._votes.setdefault((int(node.node_id), spoken.epoch), spoken.candidate_id)
        if before != spoken.candidate_id:
            raise self.violated(f"{seen}, and voted for {before} before")
