"""Requests of an older epoch are rejected.

A Vote, BeginQuorumEpoch or EndQuorumEpoch of an older epoch gets FENCED_LEADER_EPOCH, and its sender learns the newer
epoch from the answer. A replica that acted on such a request would campaign, or follow a leader, without a reason.

Source: KIP-595 §Vote, §BeginQuorumEpoch, §EndQuorumEpoch (FENCED_LEADER_EPOCH); Raft paper §5.1.
"""

from __future__ import annotations

from pykraft.sim.invariants.invariant import Invariant, SimulatedNode, Spoken


class OldEpochsAreFenced(Invariant):
    """No request of an epoch below the one in its answer is answered without an error."""

    def before_send(self, node: SimulatedNode, spoken: Spoken) -> None:
        """Compare the epoch of the request with that of the answer."""
        served = spoken.served_epoch
        if served is not None and served < spoken.epoch:
            raise self.violated(f"node {node.node_id}, in epoch {spoken.epoch}, serves a request of epoch {served}")
