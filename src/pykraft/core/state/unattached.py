"""Unattached: in this epoch no leader can be followed, because none is known or none can be reached.

A replica that voted in this epoch is still Unattached: the vote is a field, not a state of its own. The
leader's id may be known without an address; it then still forbids a vote.

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
