"""A leader asks a new voter at once which levels it supports.

Only that answer ends the addition: a leader that does not ask keeps every other change of the voters away until the
request times out, and each request after it.

Source: KIP-853 §AddRaftVoter; Kafka ``AddVoterHandler.handleAddVoterRequest``.
"""

from __future__ import annotations

from pykraft.core.leader.voter_change import Addition
from pykraft.core.state import Leader
from pykraft.sim.invariants.invariant import Invariant, SimulatedNode, View


class NewVotersAreAsked(Invariant):
    """After the event that starts an addition, a request to the new voter is under way, or its connection failed."""

    def _begin(self) -> None:
        self._seen: dict[int, Addition] = {}

    def after_event(self, node: SimulatedNode, now: View) -> None:
        """Look for an addition that has begun in this event."""
        raft = node.host.raft if node.host is not None else None
        if raft is None or not now.leads or not isinstance(raft.state, Leader):
            return
        change = raft.state.change
        if not isinstance(change, Addition) or change.offset is not None or self._seen.get(node.node_id) is change:
            return
        self._seen[node.node_id] = change
        if raft.connections.is_ready(change.voter.key.id):
            raise self.violated(f"leader {node.node_id} adds voter {change.voter.key.id}, and asks it nothing")
