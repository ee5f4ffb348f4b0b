"""Decides when an application should generate its next snapshot.

The rule is a function of what was committed since the last snapshot. Invariant: without a new record there is no new
snapshot, however much time has passed. The application asks after each batch that it gets, and generates the snapshot
itself.

Source: KIP-630 §When to Snapshot, KIP-876; Kafka's ``SnapshotGenerator``.
"""

from __future__ import annotations

from enum import Enum

from pykraft.config import LogSettings


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
