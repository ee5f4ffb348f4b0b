"""A quorum as its leader described it: voters, observers, and how far each one is.

This module has only values, and the sums of Kafka's tool. Invariant: numbers are counted as in Kafka, -1 if unknown, so
that both tools show the same; each difference is noted where it is.

Source: KIP-595 §DescribeQuorum, KIP-836; Kafka's ``QuorumInfo`` and ``MetadataQuorumCommand``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from pykraft.core.messages import DescribedReplica, DescribeQuorumResponse
from pykraft.types import Endpoint, Epoch, Listeners, NodeId, Offset, ReplicaKey

UNKNOWN: Final = -1


class Role(Enum):
    """The role of a replica in the quorum."""

    LEADER = "Leader"
    FOLLOWER = "Follower"
    OBSERVER = "Observer"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaState:
    """One replica as its leader sees it. Offsets are exclusive, times the leader's wall ms; -1 if unknown."""

    key: ReplicaKey
    role: Role
    log_end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int
    listeners: Listeners


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterProblem:
    """What a voter says of itself, or why it could not be asked; ``is_refused``: no process listens there."""

    text: str
    is_own: bool = False
    is_refused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Quorum:
    """One quorum at one moment. ``high_watermark`` is None until the leader knows it.

    ``problems``: those of the voters themselves, if they were asked.
    """

    cluster_id: str
    leader_id: NodeId
    epoch: Epoch
    high_watermark: Offset | None
    voters: tuple[ReplicaState, ...]
    observers: tuple[ReplicaState, ...]
    problems: Mapping[NodeId, VoterProblem] = field(default_factory=dict)

    @property
    def replicas(self) -> tuple[ReplicaState, ...]:
        """The leader first, then the other voters, then the observers, each in the leader's order."""
        leader = tuple(voter for voter in self.voters if voter.role is Role.LEADER)
        followers = tuple(voter for voter in self.voters if voter.role is not Role.LEADER)
        return leader + followers + self.observers

    @property
    def followers(self) -> dict[NodeId, Endpoint]:
        """The voters that do not lead, each at its first listener; without those whose listeners are unknown."""
        return {
            voter.key.id: next(iter(voter.listeners))[1]
            for voter in self.voters
            if voter.role is not Role.LEADER and len(voter.listeners)
        }

    @property
    def leader_endpoint(self) -> Endpoint | None:
        """The leader's first listener; None if it is unknown, as it is while a leader removes itself."""
        leader = self._leader
        return next((endpoint for _, endpoint in leader.listeners), None) if leader is not None else None

    def lag(self, replica: ReplicaState) -> int:
        """How many records a replica is behind its leader; one that never fetched counts from -1, as in Kafka.

        -1 when the leader is not among the voters, while it removes itself (Kafka's tool fails then).
        """
        leader = self._leader
        return UNKNOWN if leader is None else leader.log_end_offset - replica.log_end_offset

    @property
    def max_follower_lag(self) -> int:
        """How many records the last voter is behind."""
        last = self._last_voter
        return UNKNOWN if last is None else self.lag(last)

    @property
    def max_follower_lag_ms(self) -> int:
        """How long ago the last voter had everything that the leader had; 0 if the leader is that voter."""
        leader, last = self._leader, self._last_voter
        if leader is None or last is None:
            return UNKNOWN
        if leader is last:
            return 0
        if leader.last_caught_up_ms < 0 or last.last_caught_up_ms < 0:
            return UNKNOWN
        return leader.last_caught_up_ms - last.last_caught_up_ms

    @property
    def answered_ms(self) -> int:
        """The leader's wall time of this answer, from the leader's row; without one, the latest time in any row."""
        leader = self._leader
        return (
            max((each.last_fetch_ms for each in self.replicas), default=0) if leader is None else leader.last_fetch_ms
        )

    @property
    def _leader(self) -> ReplicaState | None:
        return next((voter for voter in self.voters if voter.role is Role.LEADER), None)

    @property
    def _last_voter(self) -> ReplicaState | None:
        """The voter with the shortest log, the first one if there are several."""
        return min(self.voters, key=lambda voter: voter.log_end_offset, default=None)


def quorum_of(cluster_id: str, answer: DescribeQuorumResponse, leader_id: NodeId) -> Quorum:
    """The quorum in a leader's answer, each voter joined with its listeners."""
    listeners = {node.key.id: node.listeners for node in answer.nodes}

    def replica(row: DescribedReplica, role: Role) -> ReplicaState:
        return ReplicaState(
            key=row.key,
            role=role,
            log_end_offset=row.log_end_offset,
            last_fetch_ms=row.last_fetch_timestamp,
            last_caught_up_ms=row.last_caught_up_timestamp,
            listeners=listeners.get(row.key.id, Listeners()) if role is not Role.OBSERVER else Listeners(),
        )

    return Quorum(
        cluster_id=cluster_id,
        leader_id=leader_id,
        epoch=answer.epoch,
        high_watermark=answer.high_watermark,
        voters=tuple(replica(row, Role.LEADER if row.key.id == leader_id else Role.FOLLOWER) for row in answer.voters),
        observers=tuple(replica(row, Role.OBSERVER) for row in answer.observers),
    )
