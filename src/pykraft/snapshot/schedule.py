"""Decides when an application should generate its next snapshot.

The rule is a function of what was committed since the last snapshot. Invariant: without a new record there is no new
snapshot, however much time has passed. The application asks after each batch that it gets, and generates the snapshot
itself.

Source: KIP-630 §When to Snapshot, KIP-876; Kafka's ``SnapshotGenerator``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Reason(Enum):
    """Why a snapshot is due, worded for a log line."""

    SIZE = "enough bytes were committed since the last one"
    TIME = "the last one is old"


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """How many bytes of records, or how much time, make a snapshot due.

    Source: Kafka's ``metadata.log.max.record.bytes.between.snapshots`` and ``metadata.log.max.snapshot.interval.ms``,
    and their defaults.
    """

    record_bytes_max: int = 20 * 1024 * 1024
    interval_ms: int = 60 * 60 * 1000
    """0: no time limit."""

    def due(self, *, record_bytes: int, elapsed_ms: int) -> Reason | None:
        """Why a snapshot is due, or None.

        ``record_bytes`` is the size of the batches since the last snapshot, ``elapsed_ms`` the time since then. Without
        a snapshot both count from the start of the node.
        """
        if record_bytes >= self.record_bytes_max:
            return Reason.SIZE
        if record_bytes > 0 and 0 < self.interval_ms <= elapsed_ms:
            return Reason.TIME
        return None
