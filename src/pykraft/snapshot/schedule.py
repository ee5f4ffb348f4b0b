"""When an application should take its next snapshot.

Owns the rule, as a function of what was committed since the last one. Invariant: without a new record there is no new
snapshot, however long it has been. Taking it is the application's business, and so is when it looks at this rule: after
each batch that it was handed.

Source: KIP-630 §When to Snapshot, KIP-876; Kafka's ``SnapshotGenerator``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Reason(Enum):
    """Why a snapshot is due, in words for a log line."""

    SIZE = "enough bytes were committed since the last one"
    TIME = "the last one is old"


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """After how many bytes of records, and after what time, a snapshot is due.

    Source: Kafka's ``metadata.log.max.record.bytes.between.snapshots`` and ``metadata.log.max.snapshot.interval.ms``,
    and their defaults.
    """

    record_bytes_max: int = 20 * 1024 * 1024
    interval_ms: int = 60 * 60 * 1000
    """0: the time does not count."""

    def due(self, *, record_bytes: int, elapsed_ms: int) -> Reason | None:
        """Why a snapshot is due, or None.

        ``record_bytes`` is the size of the batches since the last snapshot, ``elapsed_ms`` the time since then; since
        the start of the node when there was none.
        """
        if record_bytes >= self.record_bytes_max:
            return Reason.SIZE
        if record_bytes > 0 and 0 < self.interval_ms <= elapsed_ms:
            return Reason.TIME
        return None
