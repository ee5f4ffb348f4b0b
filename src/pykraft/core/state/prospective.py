"""Prospective: asks whether an election could be won, before raising the epoch for one.

Nothing of it is persisted: epoch, leader and vote stay what they were, so a replica cut off from the others
disturbs nobody however often it asks.

Source: KIP-996; Kafka ``ProspectiveState``.
"""

from __future__ import annotations

from dataclasses import dataclass

from pykraft.core.election import Tally
from pykraft.types import NO_LISTENERS, Epoch, Listeners, NodeId, Offset, ReplicaKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Prospective:
    """Collects pre-votes until ``election_deadline_ms`` (mono); may still know the leader it lost touch with."""

    epoch: Epoch
    leader_id: NodeId | None = None
    leader_listeners: Listeners = NO_LISTENERS
    voted: ReplicaKey | None = None
    high_watermark: Offset | None = None
    election_deadline_ms: int
    tally: Tally
    leader_has_left: bool = False
    """True when the leader itself said goodbye: who denies a pre-vote has not heard it yet, and is asked again."""
