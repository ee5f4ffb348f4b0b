"""Who is given one slice of a snapshot after the other does not take its leader for silent.

A download takes longer than a fetch timeout, and its slices are the only answers meanwhile. A follower that campaigned
would lose them, and begin again, and never have the snapshot.

Source: KIP-630 §FetchSnapshot (an answer resets the fetch timer); KafkaRaftClient.handleFetchSnapshotResponse.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pykraft.protocol.messages import ApiKey
from pykraft.sim.invariants.invariant import Invariant

if TYPE_CHECKING:
    from pykraft.sim.node import Node
    from pykraft.sim.view import View

PART: Final = 3
"""A slice within this part of a fetch timeout is no silence, however fast a clock goes."""
US_PER_MS: Final = 1_000


class FedFollowersFollow(Invariant):
    """No follower campaigns that was given a slice by its leader a moment ago, unless that leader gave up."""

    def changed(self, node: Node, was: View, now: View) -> None:
        """Look at who begins to campaign."""
        process = node.process
        if process is None or was.role != "follower" or not now.is_prospective or was.epoch != now.epoch:
            return
        tap, since_us = process.wiretap, node.config.raft.fetch_timeout_ms * US_PER_MS // PART
        begin_us = self.world.clock.now_us - since_us
        was_told = tap.asked_us.get(ApiKey.END_QUORUM_EPOCH, -1) >= begin_us
        was_fed = tap.slice_us.get(was.leader_id or 0, -1) >= begin_us
        if was_fed and not was_told and not node.was_paused_since(begin_us):
            seen = f"node {node.node_id} takes leader {was.leader_id} of epoch {was.epoch} for silent"
            raise self.violated(f"{seen}, and was given a slice of a snapshot by it a moment ago")
