"""The six states of a replica, each with only its own fields. They are data; the rules are in ``core.on``."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from pykraft.core.election import Tally
from pykraft.core.leader.accumulation import Accumulation
from pykraft.core.leader.pending import Reads, VoterChange
from pykraft.core.leader.progress import Progress
from pykraft.types import NO_LISTENERS, Epoch, Instant, Listeners, NodeId, Offset, OffsetAndEpoch, ReplicaKey, VoterSet
from pykraft.value import value


@dataclass(frozen=True, slots=True, kw_only=True)
class Unattached:
    """No leader to follow in this epoch, because it is unknown or its endpoints are.

    A voter campaigns at ``election_deadline_ms`` (mono), an observer never does. A replica that voted in this epoch is
    still Unattached; the vote is a field. A leader's id that is known without its endpoints still prevents a vote.

    Source: KIP-595, KIP-996; Kafka ``UnattachedState``.
    """

    epoch: Epoch
    leader_id: NodeId | None = None
    voted: ReplicaKey | None = None
    high_watermark: Offset | None = None
    election_deadline_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Prospective:
    """Asks with PreVote, until ``election_deadline_ms`` (mono), whether it could win an election in the next epoch.

    Nothing is persisted: epoch, leader and vote stay as they were. So a partitioned replica disturbs nobody, however
    often it asks. It may still know the leader that it lost contact with.

    Source: KIP-996; Kafka ``ProspectiveState``.
    """

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """Has voted for itself (``voted``) in a new epoch, and collects votes until ``election_deadline_ms`` (mono).

    Its vote is durable before the first request leaves. Only the election timeout ends a lost election: the candidate
    waits for it, then becomes Prospective again.

    Source: KIP-595 §Vote; Kafka ``CandidateState`` (4.1 and later: no exponential back-off).
    """

    epoch: Epoch
    voted: ReplicaKey
    high_watermark: Offset | None = None
    election_deadline_ms: int
    tally: Tally


OFTEN_COUNT: Final = 8
"""Advances of the high watermark in a short time that make records likely to follow soon."""


@dataclass(slots=True, kw_only=True)
class Leader:
    """The only replica that appends in this epoch, and the only state that is not frozen.

    It collects what fetches tell (`Progress`) and what is to be appended (`Accumulation`). The high watermark is
    unknown until a majority holds a record of its own epoch, because only that commits records of older epochs (Raft
    paper §5.4.2, figure 8). It resigns at ``check_quorum_deadline_ms`` (mono) unless a majority fetched since then.

    Source: KIP-595 §Leader; Kafka ``LeaderState``.
    """

    epoch: Epoch
    leader_id: NodeId
    epoch_start_offset: Offset
    granting_voters: tuple[NodeId, ...]
    begun_ms: int = 0
    """When this leadership began (mono ms)."""
    progress: Progress
    accumulation: Accumulation
    check_quorum_deadline_ms: int
    begin_quorum_deadline_ms: int
    high_watermark: Offset | None = None
    fetched_voters: set[NodeId] = field(default_factory=set)
    """Voters that fetched since ``check_quorum_deadline_ms`` was last set."""
    resign_requested: bool = False
    """True once the application asked this leader to resign; it does so at the end of the step."""
    change: VoterChange | None = None
    """The voter change in progress (KIP-853)."""
    reads: Reads = field(default_factory=Reads)
    """Linearizable reads that wait until this leader is confirmed."""
    volatile_voters: VoterSet = field(default_factory=VoterSet)
    """At level 0: the static voters with what UpdateRaftVoter told of them; an upgrade writes it into the log."""
    advanced_ms: deque[int] = field(default_factory=lambda: deque(maxlen=OFTEN_COUNT))
    """When the high watermark advanced the last few times (mono ms), oldest first."""

    def advances_every(self, period_ms: int, now_ms: int) -> bool:
        """True when the high watermark has lately advanced at least once in such a period, on average."""
        return len(self.advanced_ms) == OFTEN_COUNT and now_ms - self.advanced_ms[0] <= OFTEN_COUNT * period_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotDownload:
    """A snapshot that is downloaded from this leader (KIP-630).

    ``position`` is that of the next byte to ask for; None while the host stores what arrived. ``is_asked``: the request
    for it was sent.
    """

    snapshot_id: OffsetAndEpoch
    position: int | None = None
    is_asked: bool = False


@value(frozen=True, slots=True, kw_only=True)
class Follower:
    """Fetches from the leader of this epoch; a voter campaigns at ``deadline_ms`` unless a Fetch succeeds before.

    ``has_fetched`` protects a healthy leader from pre-votes: a follower that has fetched from it denies them until the
    leader sends EndQuorumEpoch, refuses a connection, or falls silent.

    Source: KIP-595 §Fetch, KIP-996; Kafka ``FollowerState``.
    """

    epoch: Epoch
    leader_id: NodeId
    leader_listeners: Listeners
    voted: ReplicaKey | None = None
    high_watermark: Offset | None = None
    fetch_deadline_ms: int
    """When the leader has been silent for a fetch timeout (mono ms)."""
    part_deadline_ms: int | None = None
    """The same since the last part of a response that is still arriving; None while none arrives."""
    early_deadline_ms: int | None = None
    """When a voter asks for pre-votes because the leader refused a connection (mono ms); None while it did not."""
    has_fetched: bool = False
    is_corrected: bool = False
    """True if this replica was told of another leader of this epoch first."""
    is_doubted: bool = False
    """True if the last Fetch answer contradicted what is known, and the one before did not."""
    has_agreed: bool = False
    """True once the leader answered that this log is a prefix of its own; it stays one within the epoch."""
    empty_answers: int = 0
    """Number of consecutive Fetch responses without news, each soon after the one before."""
    empty_answer_ms: int | None = None
    """When the last of them arrived (mono ms)."""
    told_end_offset: Offset | None = None
    """What a leader that the newest voter set does not name told as its high watermark, in this epoch."""
    successors: tuple[ReplicaKey, ...] | None = None
    """Whom EndQuorumEpoch in the leader's name wants to lead next, first the most caught up; None before one came."""
    leader_has_left: bool = False
    """True once the leader confirmed EndQuorumEpoch. A late response from before is no sign of life."""
    update_deadline_ms: int
    """When the next request about this replica's membership may be sent to the leader (mono ms; KIP-853)."""
    has_updated: bool = False
    """True once this leader has, or cannot take, this voter's listeners and supported levels."""

    download: SnapshotDownload | None = None
    """The snapshot that is to replace this replica's log."""

    def heard(self, now: Instant, fetch_timeout_ms: int) -> Follower:
        """The leader sent a valid response: it is alive, and this replica follows it."""
        if self.leader_has_left:
            return self
        return self._copy(
            high_watermark=self.high_watermark,
            fetch_deadline_ms=now.mono_ms + fetch_timeout_ms,
            early_deadline_ms=None,
            has_fetched=True,
        )

    @property
    def deadline_ms(self) -> int:
        """When this replica waits no longer for its leader (mono ms)."""
        part_ms = self.part_deadline_ms
        return self.fetch_deadline_ms if part_ms is None else max(self.fetch_deadline_ms, part_ms)

    def hears(self, now: Instant, fetch_timeout_ms: int) -> Follower:
        """Part of a response from the leader arrived; whether it is valid shows only when it is complete."""
        return self if self.leader_has_left else replace(self, part_deadline_ms=now.mono_ms + fetch_timeout_ms)

    def knows(self, high_watermark: Offset) -> Follower:
        """Everything below this offset is committed."""
        return self._copy(
            high_watermark=high_watermark,
            fetch_deadline_ms=self.fetch_deadline_ms,
            early_deadline_ms=self.early_deadline_ms,
            has_fetched=self.has_fetched,
        )

    def _copy(
        self, *, high_watermark: Offset | None, fetch_deadline_ms: int, early_deadline_ms: int | None, has_fetched: bool
    ) -> Follower:
        """With what changes with each batch. Not `replace`, which takes several times as long."""
        return Follower(
            epoch=self.epoch,
            leader_id=self.leader_id,
            leader_listeners=self.leader_listeners,
            voted=self.voted,
            high_watermark=high_watermark,
            fetch_deadline_ms=fetch_deadline_ms,
            part_deadline_ms=self.part_deadline_ms,
            early_deadline_ms=early_deadline_ms,
            has_fetched=has_fetched,
            is_corrected=self.is_corrected,
            is_doubted=self.is_doubted,
            has_agreed=self.has_agreed,
            empty_answers=self.empty_answers,
            empty_answer_ms=self.empty_answer_ms,
            told_end_offset=self.told_end_offset,
            successors=self.successors,
            leader_has_left=self.leader_has_left,
            update_deadline_ms=self.update_deadline_ms,
            has_updated=self.has_updated,
            download=self.download,
        )

    def __post_init__(self) -> None:
        assert self.leader_listeners.entries, "a follower can reach its leader"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resigned:
    """Led this epoch and cannot lead it again; sends EndQuorumEpoch to ``unacknowledged``, then waits.

    It still names itself as the leader of the epoch, so it can neither vote nor append in it. It moves to the next one
    at ``election_deadline_ms`` (mono). A replica that led its last epoch restarts in this state: its unflushed records
    may be lost, and if it led on, the same (epoch, offset) could name other records.

    Source: KIP-595 §EndQuorumEpoch; Kafka ``ResignedState``.
    """

    epoch: Epoch
    leader_id: NodeId
    unacknowledged: frozenset[NodeId]
    successors: tuple[ReplicaKey, ...]
    election_deadline_ms: int


State: TypeAlias = Unattached | Prospective | Candidate | Leader | Follower | Resigned
