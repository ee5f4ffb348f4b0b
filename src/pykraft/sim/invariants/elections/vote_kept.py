"""A disk holds a vote only for a node that was a candidate in that epoch.

A pre-vote is not a vote. A node that stored it as one could not vote for another candidate in that epoch.

Source: KIP-996 (nothing of a pre-vote is persisted); Raft dissertation §9.6.
"""

from __future__ import annotations

from pykraft.sim.invariants.invariant import Invariant, SimulatedNode, View


class VotesAreForCandidates(Invariant):
    """A node with a vote on some disk was seen as a candidate of that epoch before."""

    def _begin(self) -> None:
        self._candidates: set[tuple[int, int]] = set()

    def changed(self, node: SimulatedNode, was: View, now: View) -> None:
        """Remember candidates; check votes."""
        if now.role in {"candidate", "leader"}:
            self._candidates.add((now.epoch, int(node.node_id)))
        voted_id = now.disk.voted_id
        if voted_id is None or was.disk == now.disk:
            return
        # A stranger may ask for votes under any id, and a voter cannot tell.
        if (now.disk.epoch, voted_id) in self._candidates | self.facts.claims.candidates:
            return
        seen = f"node {node.node_id} keeps a vote for {voted_id} in epoch {now.disk.epoch}"
        raise self.violated(f"{seen}, which was not a candidate then")
