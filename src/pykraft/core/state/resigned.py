"""Resigned: led this epoch and will not lead it again; tells the voters, then waits.

It keeps naming itself as the leader of the epoch, so it can neither vote in it nor append to it. A replica
that restarts as the leader of its last epoch starts here: data it had not flushed may be gone, and leading
on would give the same (epoch, offset) to other records.

Source: KIP-595 §EndQuorumEpoch; Kafka ``ResignedState``.
"""

from __future__ import annotations

from dataclasses import dataclass

from pykraft.types import Epoch, NodeId, ReplicaKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Resigned:
    """Sends EndQuorumEpoch to ``unacknowledged``; at ``election_deadline_ms`` (mono) goes on in the next epoch."""

    epoch: Epoch
    leader_id: NodeId
    unacknowledged: frozenset[NodeId]
    successors: tuple[ReplicaKey, ...]
    election_deadline_ms: int
