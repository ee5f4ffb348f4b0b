"""Follower: fetches from the leader of this epoch, whose endpoints are known.

``has_fetched`` is what makes pre-votes safe for a healthy leader: who has fetched from it denies them until
the leader says goodbye or falls silent.

Source: KIP-595 §Fetch, KIP-996; Kafka ``FollowerState``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pykraft.types import Epoch, Instant, Listeners, NodeId, Offset, OffsetAndEpoch, ReplicaKey


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotDownload:
    """A snapshot that is fetched from this leader (KIP-630).

    ``position`` is that of the next byte to ask for; None while the host is busy with what came. ``is_asked``: the
    request for it was sent.
    """

    snapshot_id: OffsetAndEpoch
    position: int | None = None
    is_asked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Follower:
    """A voter campaigns at ``fetch_deadline_ms`` (mono) unless a Fetch succeeds before; an observer never."""

    epoch: Epoch
    leader_id: NodeId
    leader_listeners: Listeners
    voted: ReplicaKey | None = None
    high_watermark: Offset | None = None
    fetch_deadline_ms: int
    has_fetched: bool = False
    has_agreed: bool = False
    """True once the leader answered that this log is a prefix of its own: within its epoch it stays one."""
    empty_answers: int = 0
    """How many answers to a Fetch brought nothing new, each soon after the one before."""
    empty_answer_ms: int | None = None
    """When the last one of them came (mono ms)."""
    leader_has_left: bool = False
    """True once the leader said goodbye: what it answered before that may arrive late, and is no sign of life."""
    update_deadline_ms: int
    """When the leader may next be told, or asked, something about this replica's membership (mono ms; KIP-853)."""
    has_updated: bool = False
    """True once this leader has taken, or cannot take, this voter's listeners and range."""

    download: SnapshotDownload | None = None
    """The snapshot that is to take the place of this replica's log."""

    def heard(self, now: Instant, fetch_timeout_ms: int) -> Follower:
        """The leader gave a good answer: it is alive, and this replica follows it."""
        if self.leader_has_left:
            return self
        return replace(self, has_fetched=True, fetch_deadline_ms=now.mono_ms + fetch_timeout_ms)

    def hears(self, now: Instant, fetch_timeout_ms: int) -> Follower:
        """An answer of the leader is arriving: whether it is a good one will be known when it is whole."""
        return self if self.leader_has_left else replace(self, fetch_deadline_ms=now.mono_ms + fetch_timeout_ms)

    def __post_init__(self) -> None:
        assert len(self.leader_listeners), "a follower can reach its leader"
