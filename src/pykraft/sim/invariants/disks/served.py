"""What a node hands on from its log is what was written there, also when its disk has lied.

The one who fetches would notice a wrong checksum, and ask again, and get the same again; a wrong epoch or offset it
could not tell from a right one, since no checksum covers them.

Source: ours; Protocol-Aware Recovery for Consensus-Based Storage (FAST 2018): a copy that is damaged is no copy.
"""

from __future__ import annotations

from pykraft.errors import ProtocolError
from pykraft.protocol.batch import scan
from pykraft.sim.invariants.invariant import Invariant
from pykraft.sim.machine.ledger import Entry
from pykraft.sim.machine.node import Node
from pykraft.sim.machine.spoken import Spoken


class ServedIsSound(Invariant):
    """A node whose disk has lied answers a Fetch with nothing but batches that are as they were written."""

    def before_send(self, node: Node, spoken: Spoken) -> None:
        """Look at the records of an answer."""
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
