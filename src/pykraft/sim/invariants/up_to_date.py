"""Votes and pre-votes go only to a log that is at least as long as the voter's own.

Every committed record is in the log of some voter of each majority; so whoever wins holds all of them.

Source: Raft paper §5.4.1 (the later last term wins, then the longer log); KIP-996 for pre-votes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykraft.sim.invariants.invariant import Invariant

if TYPE_CHECKING:
    from pykraft.sim.node import Node
    from pykraft.sim.spoken import LogEnd, Spoken


class CandidateIsUpToDate(Invariant):
    """Nobody grants a vote or a pre-vote to a candidate whose log is shorter than its own."""

    def before_send(self, node: Node, spoken: Spoken) -> None:
        """Compare the logs as they were when the question came."""
        asked = spoken.granted
        if asked is None or asked.voter_log is None or asked.candidate_log.is_at_least(asked.voter_log):
            return
        what = "pre-vote" if asked.is_pre_vote else "vote"
        seen = f"node {node.node_id} gives {asked.candidate_id} its {what} in epoch {asked.epoch}"
        ends = f"whose log ends at {_shown(asked.candidate_log)}, its own at {_shown(asked.voter_log)}"
        raise self.violated(f"{seen}, {ends}")


def _shown(log: LogEnd) -> str:
    return f"offset {log.offset} of epoch {log.epoch}"
