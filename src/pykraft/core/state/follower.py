"""Follower: fetches from the leader of this epoch, whose endpoints are known.

``has_fetched`` protects a healthy leader from pre-votes: a follower that has fetched from it denies them until the
leader sends EndQuorumEpoch, refuses a connection, or falls silent.

Source: KIP-595 §Fetch, KIP-996; Kafka ``FollowerState``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pykraft.core.changed import changed
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
    """A voter campaigns at ``fetch_deadline_ms`` (mono) unless a Fetch succeeds before; an observer never."""

    epoch: Epoch
    leader_id: NodeId
    leader_listeners: Listeners
    voted: ReplicaKey | None = None
    high_watermark: Offset | None = None
    fetch_deadline_ms: int
    early_deadline_ms: int | None = None
    """When a voter asks for pre-votes because the leader refused a connection (mono ms); None while it did not."""
    has_fetched: bool = False
    has_agreed: bool = False
    """True once the leader answered that this log is a prefix of its own; it stays one within the epoch."""
    empty_answers: int = 0
    """Number of consecutive Fetch responses without news, each soon after the one before."""
    empty_answer_ms: int | None = None
    """When the last of them arrived (mono ms)."""
    told_end_offset: Offset | None = None
    """What a leader that the newest voter set does not name told as its high watermark, in this epoch."""
    leader_has_left: bool = False
    """True once the leader sent EndQuorumEpoch. A late response from before is no sign of life."""
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
        fetch_deadline_ms = now.mono_ms + fetch_timeout_ms
        return changed(self, has_fetched=True, fetch_deadline_ms=fetch_deadline_ms, early_deadline_ms=None)

    def hears(self, now: Instant, fetch_timeout_ms: int) -> Follower:
        """Part of a response from the leader arrived; whether it is valid shows only when it is complete."""
        return self if self.leader_has_left else replace(self, fetch_deadline_ms=now.mono_ms + fetch_timeout_ms)

    def __post_init__(self) -> None:
        assert self.leader_listeners.entries, "a follower can reach its leader"
