"""A voter whose directory was emptied and proven knows after each start in which epochs it may have voted before.

Two votes of it in one epoch would need a candidate of that epoch that asks for the second after the proof. That is too
rare to wait for.

Source: ADR 022; KAFKA-14077; Raft paper §5.2.
"""

from __future__ import annotations

from pykraft.log.small_files.proof_file import FILE_NAME, parse_proof
from pykraft.sim.invariants.invariant import Invariant, SimulatedNode, View


class ProofsAreReadBack(Invariant):
    """A proven voter votes above the epoch in its ``replica-proof`` only: it knows that epoch after each start.

    A disk that lies may have lost the file.
    """

    def _begin(self) -> None:
        self._above: dict[int, int] = {}

    def starting(self, node: SimulatedNode) -> None:
        """Read the file."""
        path = node.config.log_dir / FILE_NAME
        content = node.disk.content(path)
        if content is not None and not node.disk.is_rotten:
            self._above[int(node.node_id)] = parse_proof(path, bytes(content)).votes_above

    def after_event(self, node: SimulatedNode, _now: View) -> None:
        """Compare with what the node knows once it has started."""
        above = self._above.pop(int(node.node_id), None)
        raft = node.host.raft if above is not None and node.host is not None else None
        if above is None or raft is None or not raft.status.is_proven:
            return
        if raft.votes_above < above:
            seen = f"node {node.node_id} may have voted in epochs up to {above} before it was proven"
            raise self.violated(f"{seen}, and votes above {raft.votes_above} after its start")
