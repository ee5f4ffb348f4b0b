"""No node asks for pre-votes for ever.

When the network works, pre-votes end with a candidate, or with news of a leader. Two nodes that deny each other and
both wait are in a deadlock that no timer ends.

Source: NotStuckInProspective of Vanlightly's specification of KIP-996; KIP-996.
"""

from __future__ import annotations

from pykraft.sim.invariants.invariant import Invariant, SimulatedNode, View

ELECTION_TIMEOUTS = 25
"""Chance, and nodes that catch up, may cost this many rounds of pre-votes."""


class NoLastingProspective(Invariant):
    """After the faults no voter stays without a leader and without a candidacy for long."""

    def _begin(self) -> None:
        self._is_quiet = False
        self._since_us: dict[int, int] = {}

    def faults_ended(self) -> None:
        """From now on time counts."""
        self._is_quiet = True

    def changed(self, node: SimulatedNode, _was: View, now: View) -> None:
        """A node that has a leader, leads, or is a candidate is not stuck."""
        if not now.is_up or not (now.is_prospective or now.role.startswith("unattached")):
            self._since_us.pop(int(node.node_id), None)

    def after_event(self, node: SimulatedNode, now: View) -> None:
        """Check how long the node has been without a leader."""
        node_id = int(node.node_id)
        if not self._is_quiet or not now.is_prospective or node_id not in now.voters.ids:
            return
        lasted_us = self.facts.clock.now_us - self._since_us.setdefault(node_id, self.facts.clock.now_us)
        if lasted_us > ELECTION_TIMEOUTS * self.facts.scenario.quorum.election_timeout_ms * 1_000:
            raise self.violated(f"node {node_id} has asked for pre-votes in vain for {lasted_us} us")
