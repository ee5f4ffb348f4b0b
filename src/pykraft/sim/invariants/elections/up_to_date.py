"""A voter grants votes and pre-votes only to a candidate whose log is at least as long as its own.

Every committed record is in the log of some voter of each majority, so the winner holds all of them.

A voter repeats its vote when the same candidate asks again in that epoch. By then the voter may have followed the
elected leader and have records of the epoch, so its log may be longer than at its first vote; that is still the same
vote.

Source: Raft paper §5.4.1 (the later last term wins, then the longer log); KIP-996 for pre-votes.
"""

from __future__ import annotations

from pykraft.sim.invariants.invariant import Invariant, SimulatedNode, Spoken, View
from pykraft.sim.machine.spoken import LogEnd


class CandidateIsUpToDate(Invariant):
    """No node grants a vote or a pre-vote to a candidate whose log is shorter than its own."""

    def _begin(self) -> None:
        self._votes: dict[int, tuple[int, int]] = {}
        """By node: epoch and candidate of its newest vote, if it had no record of that epoch then."""

    def wiped(self, node: SimulatedNode) -> None:
        """The node knows of no vote."""
        self._votes.pop(int(node.node_id), None)

    def forgot_votes(self, node: SimulatedNode) -> None:
        """The node knows of no vote."""
        self.wiped(node)

    def changed(self, node: SimulatedNode, was: View, now: View) -> None:
        """Remember a new vote on the disk."""
        epoch, voted_id = now.disk.epoch, now.disk.voted_id
        if was.disk == now.disk or voted_id is None:
            return
        if self.facts.platters.end(node).epoch < epoch:
            self._votes[int(node.node_id)] = (epoch, voted_id)

    def before_send(self, node: SimulatedNode, spoken: Spoken) -> None:
        """Compare the logs as they were when the request came."""
        asked = spoken.granted
        if asked is None or asked.voter_log is None or asked.candidate_log.is_at_least(asked.voter_log):
            return
        is_repeated = asked.voter_log.epoch == asked.epoch and not asked.is_pre_vote
        if is_repeated and self._votes.get(int(node.node_id)) == (asked.epoch, asked.candidate_id):
            return
        what = "pre-vote" if asked.is_pre_vote else "vote"
        seen = f"node {node.node_id} gives {asked.candidate_id} its {what} in epoch {asked.epoch}"
        ends = f"whose log ends at {_shown(asked.candidate_log)}, its own at {_shown(asked.voter_log)}"
        raise self.violated(f"{seen}, {ends}")


def _shown(log: LogEnd) -> str:
    return f"offset {log.offset} of epoch {log.epoch}"
