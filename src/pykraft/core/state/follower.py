"""Follower: fetches from the leader of this epoch, whose endpoints are known.

``has_fetched`` protects a healthy leader from pre-votes: a follower that has fetched from it denies them until the
leader sends EndQuorumEpoch, refuses a connection, or falls silent.

Source: KIP-595 §Fetch, KIP-996; Kafka ``FollowerState``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pykraft.types import Epoch, Instant, Listeners, NodeId, Offset, OffsetAndEpoch, ReplicaKey
from pykraft.value import value


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
    """A voter campaigns at ``deadline_ms`` unless a Fetch succeeds before; an observer never."""

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
        self,
        *,
        high_watermark: Offset | None,
        fetch_deadline_ms: int,
        early_deadline_ms: int | None,
        has_fetched: bool,
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
