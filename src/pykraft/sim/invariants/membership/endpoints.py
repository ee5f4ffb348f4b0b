"""A voter set names only endpoints that can be dialed, and where the voter was reached.

Once it is committed, every node dials them at every start; an endpoint that no resolver accepts would end the nodes,
and one where nobody listens could cost the quorum its majority for good.

Source: KIP-853 §UpdateVoter, KAFKA-20661; ours: Kafka commits any string as a host.
"""

from __future__ import annotations

from pykraft.sim.facts.facts import FORGER_ID
from pykraft.sim.invariants.invariant import Invariant, SimulatedNode, VoterRecord
from pykraft.sim.scenario.settings import node_at, port_of


class VotersCanBeDialed(Invariant):
    """No leader writes a voter set with an invalid host name, or with an address at which the voter never was."""

    def voters_written(self, node: SimulatedNode, record: VoterRecord, _committed_end: int) -> None:
        """Check its hosts and ports."""
        for voter in record.voters.voters:
            for _, endpoint in voter.listeners:
                # A voter moves to higher ports only, and may have moved on since it was asked.
                owner = self.facts.nodes[voter.key.id]
                was_there = node_at(endpoint.port) == voter.key.id and endpoint.port <= port_of(owner.config)
                # Who answers there as a voter would is believed: no leader can tell.
                was_there |= endpoint.port == FORGER_ID and self.facts.claims.is_moving_voters
                if not endpoint.host.isprintable() or not was_there:
                    seen = f"leader {node.node_id} writes voters at {record.offset} of whom {voter.key.id}"
                    raise self.violated(f"{seen} is at {endpoint.host!r}, port {endpoint.port}")
