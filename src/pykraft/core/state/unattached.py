"""Unattached: no leader to follow in this epoch, because it is unknown or its endpoints are.

A replica that voted in this epoch is still Unattached; the vote is a field. The leader's id may be known without its
endpoints; it then still prevents a vote.

Source: KIP-595, KIP-996; Kafka ``UnattachedState``.
"""

from __future__ import annotations

from dataclasses import dataclass

from pykraft.types import Epoch, NodeId, Offset, ReplicaKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Unattached:
    """Looks for a leader; a voter campaigns at ``election_deadline_ms`` (mono), an observer never does."""

    epoch: Epoch
    leader_id: NodeId | None = None
    voted: ReplicaKey | None = None
    high_watermark: Offset | None = None
    election_deadline_ms: int
