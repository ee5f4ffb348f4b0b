"""A Fetch leaves only when what it acknowledges is durable: its offset counts for the high watermark.

No less may be on the platter than it says, and no more: a truncation that it relies on is durable as well. A question
to a node that does not lead acknowledges nothing, and may be out of date when its connection stands at last.

Source: KIP-595 §Fetch (the fetch offset is the acknowledgment); etcd ``raft/doc.go`` (write before you send).
"""

from __future__ import annotations

from pykraft.sim.invariants.invariant import Invariant
from pykraft.sim.machine.node import Node
from pykraft.sim.machine.spoken import Spoken


class FetchIsDurableFirst(Invariant):
    """The log on the platter, or the snapshot in its place, ends where the Fetch says, with the epoch that it says."""

    def before_send(self, node: Node, spoken: Spoken) -> None:
        """Compare the Fetch with the platter."""
        fetched, host = spoken.fetched, node.host
        if (
            fetched is None
            or host is None
            or node.is_damaged
            or self.facts.platters.has_news(node)
            or (spoken.epoch, spoken.target_id) != (host.epoch, host.leader_id)
        ):
            return
        end = self.facts.platters.end(node)
        if (end.offset, end.epoch) != (fetched.offset, fetched.epoch):
            seen = f"node {node.node_id} fetches at {fetched.offset} after epoch {fetched.epoch}"
            raise self.violated(f"{seen}, its disk holds a log up to {end.offset} of epoch {end.epoch}")
