"""Which snapshots are no longer needed.

Owns the rule, as a function of sizes, ages and offsets; it touches no file. Invariant: the newest snapshot stays, and
so does one that a replica is reading, with all that are newer. The log begins where the oldest one that stays ends.

1. Oldest first, while there is a later one: a snapshot goes when it is older than the age limit, or when the log and
   all snapshots together are larger than the size limit.
2. With it go the segments of the log that end at or below the offset of the next one; their size counts no more.
3. At the first one that stays, all later ones stay.

The limits are soft: the newest snapshot and the log after it stay, however large and old they are.

Source: KIP-630 §When to Delete Snapshots; Kafka's ``KafkaRaftLog.maybeClean``. That a reader keeps its file is ours.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pykraft.types import Offset, OffsetAndEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How much is kept, and for how long; a negative number is no limit.

    Source: Kafka's ``metadata.max.retention.bytes`` and ``metadata.max.retention.ms``, and their defaults.
    """

    size_bytes_max: int = 100 * 1024 * 1024
    age_ms_max: int = 7 * 24 * 60 * 60 * 1000
    interval_ms: int = 60_000
    """Time between two looks; a snapshot that was asked for since the last one is being fetched, and stays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSnapshot:
    """A snapshot as the rule sees it; the timestamp (wall ms) is that of the last record it contains."""

    snapshot_id: OffsetAndEpoch
    size_bytes: int
    last_contained_log_timestamp: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSegment:
    """A segment of the log as the rule sees it; the end offset is exclusive."""

    end_offset: Offset
    size_bytes: int


def expired(
    retention: Retention,
    snapshots: Sequence[KeptSnapshot],
    segments: Sequence[KeptSegment],
    *,
    in_use: Collection[OffsetAndEpoch],
    now_ms: int,
) -> list[OffsetAndEpoch]:
    """Ids of the snapshots to delete, oldest first.

    ``snapshots`` and ``segments`` are oldest first; of the segments the last takes appends, and never goes.
    """
    removed: list[OffsetAndEpoch] = []
    for index, snapshot in enumerate(snapshots[:-1]):
        start_offset = snapshot.snapshot_id.offset if removed else Offset(0)
        size_bytes = sum(each.size_bytes for each in snapshots[index:])
        size_bytes += sum(each.size_bytes for each in segments[:-1] if each.end_offset > start_offset)
        size_bytes += sum(each.size_bytes for each in segments[-1:])
        is_large = 0 <= retention.size_bytes_max < size_bytes
        is_old = 0 <= retention.age_ms_max < now_ms - snapshot.last_contained_log_timestamp
        if snapshot.snapshot_id in in_use or not (is_large or is_old):
            break
        removed.append(snapshot.snapshot_id)
    return removed
