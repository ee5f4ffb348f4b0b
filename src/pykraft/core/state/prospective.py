"""Prospective: asks with PreVote whether it could win an election, before it raises the epoch.

Nothing is persisted: epoch, leader and vote stay as they were. So a partitioned replica disturbs nobody, however often
it asks.

Source: KIP-996; Kafka ``ProspectiveState``.
"""

from __future__ import annotations

from dataclasses import dataclass

from pykraft.core.election import Tally
from pykraft.types import NO_LISTENERS, Epoch, Listeners, NodeId, Offset, ReplicaKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Prospective:
    """Collects pre-votes until ``election_deadline_ms`` (mono); may still know the leader that it lost contact with."""

    epoch: Epoch
    leader_id: NodeId | None = None
    leader_listeners: Listeners = NO_LISTENERS
    voted: ReplicaKey | None = None
    high_watermark: Offset | None = None
    election_deadline_ms: int
    tally: Tally
    leader_has_left: bool = False
    """True when the leader sent EndQuorumEpoch or refuses connections: a voter that denies has perhaps not noticed yet.

    It is asked again.
    """
    fetch_deadline_ms: int | None = None
    """The follower's deadline in a campaign that began before it, because the leader refuses connections (mono ms)."""

    @property
    def is_early(self) -> bool:
        """The campaign began before the fetch timeout: steps 3 and 4 of `pykraft.core.on.early_campaign` apply."""
        return self.fetch_deadline_ms is not None
