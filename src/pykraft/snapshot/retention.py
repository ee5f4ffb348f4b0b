"""Decides when the next snapshot is due, and which snapshots are no longer needed.

The rule is a function of sizes, ages and offsets; it touches no file. Invariant: the newest snapshot stays, and so does
one that a replica is fetching, with all newer ones. The log starts where the oldest snapshot that stays ends.

1. Take the snapshots oldest first, except the newest. A snapshot goes if it is older than ``retention_age_ms_max``, or
   if the log and all snapshots together are larger than ``retention_size_bytes_max``. A negative number is no limit.
2. The segments of the log that end at or below the offset of the next snapshot go with it, and no longer count.
3. The first snapshot that stays ends this: all later ones stay, too.

The limits are soft: the newest snapshot and the log after it stay, however large and old they are.

When the next one is due depends on what was committed since the last snapshot: without a new record there is none,
however much time has passed. The application asks after each batch that it gets, and generates the snapshot itself.

Source: KIP-630 §When to Delete Snapshots; Kafka's ``metadata.max.retention.bytes``, ``metadata.max.retention.ms`` and
``KafkaRaftLog.maybeClean``. Keeping a snapshot for its readers is ours; KIP-630 §When to Snapshot, KIP-876; Kafka's
``SnapshotGenerator``.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum

from pykraft.config import LogSettings
from pykraft.types import Offset, OffsetAndEpoch


class Reason(Enum):
    """Why a snapshot is due, worded for a log line."""

    SIZE = "enough bytes were committed since the last one"
    TIME = "the last one is old"


def due(settings: LogSettings, *, record_bytes: int, elapsed_ms: int) -> Reason | None:
    """Why a snapshot is due, or None.

    ``record_bytes`` is the size of the batches since the last snapshot, ``elapsed_ms`` the time since then. Without a
    snapshot both count from the start of the node. A ``snapshot_interval_ms`` of 0 means no time limit.
    """
    if record_bytes >= settings.snapshot_record_bytes_max:
        return Reason.SIZE
    if record_bytes > 0 and 0 < settings.snapshot_interval_ms <= elapsed_ms:
        return Reason.TIME
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSnapshot:
    """The facts about a snapshot that the rule needs; the timestamp (wall ms) is that of its last record."""

    snapshot_id: OffsetAndEpoch
    size_bytes: int
    last_contained_log_timestamp: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSegment:
    """The facts about a segment that the rule needs; the end offset is exclusive."""

    end_offset: Offset
    size_bytes: int


def expired(
    settings: LogSettings,
    snapshots: Sequence[KeptSnapshot],
    segments: Sequence[KeptSegment],
    *,
    in_use: Collection[OffsetAndEpoch],
    now_ms: int,
) -> list[OffsetAndEpoch]:
    """Ids of the snapshots to delete, oldest first.

    ``snapshots`` and ``segments`` are oldest first. The last segment takes appends and always stays.
    """
    removed: list[OffsetAndEpoch] = []
    for index, snapshot in enumerate(snapshots[:-1]):
        # 2. Segments that went with the removed snapshots do not count.
        start_offset = snapshot.snapshot_id.offset if removed else Offset(0)
        size_bytes = sum(each.size_bytes for each in snapshots[index:])
        size_bytes += sum(each.size_bytes for each in segments[:-1] if each.end_offset > start_offset)
        size_bytes += sum(each.size_bytes for each in segments[-1:])
        # 1. Size or age; a negative limit never applies.
        is_large = 0 <= settings.retention_size_bytes_max < size_bytes
        is_old = 0 <= settings.retention_age_ms_max < now_ms - snapshot.last_contained_log_timestamp
        # 3. This one stays, and all newer ones.
        if snapshot.snapshot_id in in_use or not (is_large or is_old):
            break
        removed.append(snapshot.snapshot_id)
    return removed
