"""A node serves only records that are as they were written, even when its disk has lied.

A replica that fetches would notice a wrong checksum, fetch again, and get the same bytes again. A wrong epoch or offset
it could not notice, because no checksum covers them.

Source: ours; Protocol-Aware Recovery for Consensus-Based Storage (FAST 2018): a copy that is damaged is no copy.
"""

from __future__ import annotations

from pykraft.errors import ProtocolError
from pykraft.protocol.batch import scan
from pykraft.sim.invariants.invariant import Invariant, SimulatedNode, Spoken
from pykraft.sim.machine.ledger import Entry


class ServedIsSound(Invariant):
    """A node whose disk has lied answers a Fetch only with batches that are as they were written."""

    def before_send(self, node: SimulatedNode, spoken: Spoken) -> None:
        """Check the records in an answer."""
        if not spoken.served:
            return
        ledger = self.facts.ledger(node)
        try:
            for _, header in scan(spoken.served):
                written = ledger.at(header.base_offset)
                if Entry.of(header) != written:
                    raise self.violated(f"node {node.node_id} answers a Fetch with {Entry.of(header)}, not {written}")
        except ProtocolError as error:
            raise self.violated(f"node {node.node_id} answers a Fetch with a damaged batch: {error}") from error
