"""An epoch begins with a candidate, or with a leader that resigned from the one before; never with a pre-vote.

A node that asks for pre-votes stays in its epoch, in memory and on disk, however often it asks. Otherwise a node that
was cut off would return with an epoch that unseats a healthy leader.

Source: KIP-996 (a prospective replica raises no epoch and persists nothing); Raft dissertation §9.6.
"""

from __future__ import annotations

from pykraft.sim.invariants.invariant import Invariant, SimulatedNode, View


class EpochBeginsWithCandidate(Invariant):
    """The first node in an epoch is a candidate in it or led the epoch before, unless a stranger named the epoch."""

    def _begin(self) -> None:
        self._highest = 0

    def changed(self, node: SimulatedNode, was: View, now: View) -> None:
        """Check epochs that no node was in before."""
        if not now.is_up or now.epoch <= self._highest:
            return
        self._highest = now.epoch
        has_resigned = was.role == "resigned" and now.epoch == was.epoch + 1
        is_claimed = now.epoch in self.facts.claims.epochs
        if now.role not in {"candidate", "leader"} and not has_resigned and not is_claimed:
            raise self.violated(f"node {node.node_id} opened epoch {now.epoch} as {now.role}, it was {was.role} before")
