"""A node that knows that part of its log is lost takes no part in elections.

It may have acknowledged what it lost, and a majority that counts it could elect a leader without a committed record. So
it grants no votes or pre-votes, does not campaign, and does not lead.

Source: ours; Protocol-Aware Recovery for Consensus-Based Storage (FAST 2018): safe and unsafe reactions to corruption.
"""

from __future__ import annotations

from pykraft.sim.invariants.invariant import Invariant, SimulatedNode, Spoken, View


class DamagedTakesNoPart(Invariant):
    """A node in quarantine grants nothing, and is neither a candidate nor a leader."""

    def before_send(self, node: SimulatedNode, spoken: Spoken) -> None:
        """Check a granted vote against the node's state when the request came."""
        asked = spoken.granted
        if asked is not None and asked.is_voter_damaged:
            what = "pre-vote" if asked.is_pre_vote else "vote"
            seen = f"node {node.node_id} gives {asked.candidate_id} its {what} in epoch {asked.epoch}"
            raise self.violated(f"{seen}, and part of its log is lost")

    def changed(self, node: SimulatedNode, _was: View, now: View) -> None:
        """Check the role of the node."""
        if node.is_damaged and (now.leads or now.is_prospective or now.role == "candidate"):
            raise self.violated(f"node {node.node_id} is {now.role} in epoch {now.epoch}, and part of its log is lost")
