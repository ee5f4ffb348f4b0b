"""A Fetch leaves only when what it acknowledges is durable, because its offset counts for the high watermark.

The platter must hold neither less nor more than the Fetch says: a truncation that it relies on has to be durable, too.
A Fetch to a node that does not lead acknowledges nothing, and may be out of date by the time its connection is
established.

Source: KIP-595 §Fetch (the fetch offset is the acknowledgment); etcd ``raft/doc.go`` (write before you send).
"""

from __future__ import annotations

from pykraft.sim.invariants.invariant import Invariant, SimulatedNode, Spoken


class FetchIsDurableFirst(Invariant):
    """The log on the platter, or the snapshot that replaces it, ends at the offset and epoch in the Fetch."""

    def before_send(self, node: SimulatedNode, spoken: Spoken) -> None:
        """Compare the Fetch with the platter."""
        fetched, status = spoken.fetched, node.status
        if (
            fetched is None
            or status is None
            or node.is_damaged
            or self.facts.platters.has_news(node)
            or (spoken.epoch, spoken.target_id) != (status.epoch, status.leader_id)
        ):
            return
        end = self.facts.platters.end(node)
        if (end.offset, end.epoch) != (fetched.offset, fetched.epoch):
            seen = f"node {node.node_id} fetches at {fetched.offset} after epoch {fetched.epoch}"
            raise self.violated(f"{seen}, its disk holds a log up to {end.offset} of epoch {end.epoch}")
