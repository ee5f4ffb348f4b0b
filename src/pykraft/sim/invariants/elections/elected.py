"""A leader has the votes of a majority of the voters in its own log, from the disks that those entries name.

Its own vote counts if it is one of them.

Source: Raft paper §5.2; KIP-853 (voter keys, the set in force); Kafka ``CandidateState.isVoteGranted``.
"""

from __future__ import annotations

from collections import defaultdict

from pykraft.core.quorum import majority_of
from pykraft.sim.invariants.invariant import Invariant, SimulatedNode, Spoken, View
from pykraft.types import ReplicaKey


class LeaderHasItsVotes(Invariant):
    """A new leader has the votes of a majority of its voter set."""

    def _begin(self) -> None:
        self._votes: defaultdict[tuple[int, int], set[ReplicaKey]] = defaultdict(set)
        """By epoch and candidate."""

    def before_send(self, node: SimulatedNode, spoken: Spoken) -> None:
        """Remember who voted for whom; candidates vote for themselves."""
        if spoken.candidate_id is not None:
            self._votes[spoken.epoch, spoken.candidate_id].add(node.key)

    def changed(self, node: SimulatedNode, was: View, now: View) -> None:
        """Count the votes of a new leader."""
        if not now.leads or (was.leads and was.epoch == now.epoch):
            return
        votes = self._votes[now.epoch, int(node.node_id)] | {node.key}
        granted = [int(voter.key.id) for voter in now.voters.voters if any(voter.key.matches(key) for key in votes)]
        if len(granted) < majority_of(len(now.voters)):
            seen = f"node {node.node_id} leads epoch {now.epoch} with the votes of {granted}"
            raise self.violated(f"{seen}, the voters are {[*map(int, now.voters.ids)]}")
