"""A quorum as its leader described it, and a verdict on it: healthy, or at risk and why; or there is no leader.

Numbers are counted as in Kafka, -1 if unknown, so that both tools show the same; each difference is noted where it is.
A leader leads on for 1.5 fetch timeouts after its majority is gone, so its existence is no sign of health. Ages are
differences of the leader's own clock, so the clock of this machine does not matter. Invariant: a quorum is called
healthy only if every voter fetches, has recently held all that its leader had, and, if it was asked, can vote.

Source: KIP-595 §DescribeQuorum, KIP-836; Kafka's ``QuorumInfo`` and ``MetadataQuorumCommand``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from pykraft.core.messages import DescribedReplica, DescribeQuorumResponse
from pykraft.core.quorum import majority_of
from pykraft.text.words import counted
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
    def endpoints(self) -> dict[NodeId, Endpoint]:
        """The voters, each at its first listener; without those whose listeners are unknown."""
        return {voter.key.id: next(iter(voter.listeners))[1] for voter in self.voters if len(voter.listeners)}

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


SILENT_MS_MAX: Final = 1_500
"""A voter that fetched longer ago than this does not follow. A follower fetches at least every half second.

Shorter than the time after which a leader without its majority resigns (3 s by default).
"""
BEHIND_MS_MAX: Final = 5_000
"""A voter that was caught up longer ago than this is behind; under load each one is behind by a few records."""
PROBLEMS_MAX: Final = 5
_UNITS: Final = (("ms", 1, 1_000), ("s", 1_000, 120_000), ("min", 60_000, 7_200_000), ("h", 3_600_000, 172_800_000))
"""Unit, its ms, and below which duration in ms it is used."""


class Health(Enum):
    """The first words of a verdict."""

    HEALTHY = "healthy"
    AT_RISK = "at risk"
    NO_LEADER = "no leader"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumVerdict:
    """What the quorum is, and in one sentence why."""

    health: Health
    detail: str

    def __str__(self) -> str:
        return f"{self.health.value}: {self.detail}"


def verdict_on(found: Quorum) -> QuorumVerdict:
    """The verdict on a quorum with a leader."""
    count, following = len(found.voters), sum(follows(found, voter) for voter in found.voters)
    leads = f"leader {found.leader_id} in epoch {found.epoch}"
    problems = [told for voter in found.voters if (told := problem_of(found, voter)) is not None]
    problems += shared_endpoints(found)
    if found.high_watermark is None:
        problems.append(f"leader {found.leader_id} has not committed a record of its epoch yet")
    shown = problems[:PROBLEMS_MAX]
    if len(problems) > PROBLEMS_MAX:
        shown.append(f"problems of {counted(len(problems) - PROBLEMS_MAX, 'more voter')}")
    told = f"{following} of {counted(count, 'voter')} follow{'s' if following == 1 else ''} {leads}"
    if count and following < majority_of(count):
        told += f", fewer than the majority of {majority_of(count)}: nothing commits"
    elif problems and following == majority_of(count):
        told += ", just a majority: if one more fails, nothing commits"
    return QuorumVerdict(health=Health.AT_RISK if problems else Health.HEALTHY, detail="; ".join([*shown, told]))


def shared_endpoints(found: Quorum) -> list[str]:
    """Addresses that more than one voter has: only one of them can listen there."""
    voters: dict[str, list[int]] = {}
    for voter in found.voters:
        for _, endpoint in voter.listeners:
            voters.setdefault(str(endpoint), []).append(voter.key.id)
    return [
        f"voters {' and '.join(map(str, ids))} have one address, {endpoint}: remove or move the wrong one"
        for endpoint, ids in voters.items()
        if len({*ids}) > 1
    ]


def follows(found: Quorum, voter: ReplicaState) -> bool:
    """True for the leader and for a voter that fetches from it and still runs, as far as is known."""
    if voter.role is Role.LEADER:
        return True
    asked = found.problems.get(voter.key.id)
    if asked is not None and asked.is_refused:
        return False
    return voter.last_fetch_ms >= 0 and age_ms(found, voter.last_fetch_ms) <= SILENT_MS_MAX


def problem_of(found: Quorum, voter: ReplicaState) -> str | None:
    """What is wrong with a voter; None when it follows, is caught up, and says nothing else of itself."""
    if voter.role is Role.LEADER:
        return None
    seen, asked = _seen_by_leader(found, voter), found.problems.get(voter.key.id)
    if asked is None:
        return seen
    if seen is not None:
        return f"{seen} ({asked.text})"
    # This machine may not reach a voter that the leader reaches: that alone does not matter to the quorum.
    return f"voter {voter.key.id}: {asked.text}" if asked.is_own else None


def _seen_by_leader(found: Quorum, voter: ReplicaState) -> str | None:
    if voter.last_fetch_ms < 0:
        return f"voter {voter.key.id} has not fetched from leader {found.leader_id} yet"
    lag = max(0, found.lag(voter))
    behind = f"is {counted(lag, 'record')} behind"
    if not follows(found, voter):
        fetched = f"voter {voter.key.id} last fetched {age(age_ms(found, voter.last_fetch_ms))} ago"
        return f"{fetched} and {behind}" if lag else fetched
    if voter.last_caught_up_ms < 0:
        return f"voter {voter.key.id} {behind} and has not caught up yet"
    caught_up_ms = age_ms(found, voter.last_caught_up_ms)
    return (
        f"voter {voter.key.id} {behind}, last caught up {age(caught_up_ms)} ago"
        if caught_up_ms > BEHIND_MS_MAX
        else None
    )


def age_ms(found: Quorum, wall_ms: int) -> int:
    """How long before the leader's answer this was."""
    return max(0, found.answered_ms - wall_ms)


def age(duration_ms: int) -> str:
    """A duration for people: ``190 ms``, ``40 s``, ``12 min``, ``5 h``, ``3 d``."""
    for unit, unit_ms, ends_ms in _UNITS:
        if duration_ms < ends_ms:
            return f"{duration_ms // unit_ms} {unit}"
    return f"{duration_ms // 86_400_000} d"
