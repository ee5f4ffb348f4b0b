"""A voter set names only endpoints that can be dialed.

Once it is committed, every node dials them at every start; an endpoint that no resolver accepts would end the nodes.

Source: KIP-853 §UpdateVoter; ours: Kafka commits any string as a host.
"""

from __future__ import annotations

from pykraft.sim.facts.electorate import VoterRecord
from pykraft.sim.invariants.invariant import Invariant
from pykraft.sim.machine.node import SimulatedNode


class VotersCanBeDialed(Invariant):
    """No leader writes a voter set with an invalid host name."""

    def voters_written(self, node: SimulatedNode, record: VoterRecord, _committed_end: int) -> None:
        """Check its hosts."""
        for voter in record.voters.voters:
            for _, endpoint in voter.listeners:
                if not endpoint.host.isprintable():
                    seen = f"leader {node.node_id} writes voters at {record.offset} of whom {voter.key.id}"
                    raise self.violated(f"{seen} is at {endpoint.host!r}")
