"""A listener that begins late hears at once who leads.

An application may register another listener at any time. News of the leader came before that, so without this it
would hear of none until the next election.

Source: Kafka's ``RaftClient.register``, whose ``ListenerContext`` is told the leader and epoch of the moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pykraft.sim.invariants.invariant import CommittedBatch, Invariant
from pykraft.types import Epoch, NodeId

FOLLOWER: Final = "follower"


class LateListenersHearWhoLeads(Invariant):
    """At the end of the world a new listener of each follower is told its leader while it is registered."""

    def ended(self) -> None:
        """Register them; the world does not go on."""
        for node in self.facts.nodes.values():
            host = node.host
            if host is None or host.status.role != FOLLOWER:
                continue
            newcomer, status = _Newcomer(), host.status
            host.register(newcomer, status.high_watermark or status.log_start_offset)
            if newcomer.told != (status.epoch, status.leader_id):
                seen = f"a new listener of node {node.node_id} is told {newcomer.told}"
                raise self.violated(f"{seen}, and node {status.leader_id} leads epoch {status.epoch}")


class _Newcomer:
    """See `pykraft.host.delivery.HostListener`: remembers what it was told of the leader."""

    def __init__(self) -> None:
        self.told: tuple[int, int | None] | None = None

    def on_commit(self, batches: Sequence[CommittedBatch]) -> None:
        """See `HostListener`: ignored."""

    def on_leader_change(self, epoch: Epoch, leader_id: NodeId | None) -> None:
        """See `HostListener`."""
        self.told = (int(epoch), leader_id)
