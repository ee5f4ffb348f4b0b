"""Resigned: led this epoch and cannot lead it again; sends EndQuorumEpoch, then waits.

It still names itself as the leader of the epoch, so it can neither vote nor append in it. A replica that led its last
epoch restarts in this state: its unflushed records may be lost, and if it led on, the same (epoch, offset) could name
other records.

Source: KIP-595 §EndQuorumEpoch; Kafka ``ResignedState``.
"""

from __future__ import annotations

from dataclasses import dataclass

from pykraft.types import Epoch, NodeId, ReplicaKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Resigned:
    """Sends EndQuorumEpoch to ``unacknowledged``; moves to the next epoch at ``election_deadline_ms`` (mono)."""

    epoch: Epoch
    leader_id: NodeId
    unacknowledged: frozenset[NodeId]
    successors: tuple[ReplicaKey, ...]
    election_deadline_ms: int
