"""Candidate: has voted for itself in a new epoch and asks the other voters for theirs.

Its vote is durable before the first request leaves. Only the election timeout ends a lost election: the candidate waits
for it, then becomes Prospective again.

Source: KIP-595 §Vote; Kafka ``CandidateState`` (4.1 and later: no exponential back-off).
"""

from __future__ import annotations

from dataclasses import dataclass

from pykraft.core.election import Tally
from pykraft.types import Epoch, Offset, ReplicaKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """Collects votes until ``election_deadline_ms`` (mono); ``voted`` is this replica itself."""

    epoch: Epoch
    voted: ReplicaKey
    high_watermark: Offset | None = None
    election_deadline_ms: int
    tally: Tally
