"""A snapshot is due after so many bytes or so much time, and never without new records.

Source: KIP-630 §When to Snapshot, KIP-876; Kafka's ``SnapshotGenerator``.
"""

from __future__ import annotations

import pytest

from pykraft.config import LogSettings
from pykraft.snapshot.schedule import Reason, due


@pytest.mark.parametrize(
    ("record_bytes", "elapsed_ms", "expected"),
    [
        (0, 0, None),
        (99, 999, None),
        (100, 0, Reason.SIZE),
        (101, 10**9, Reason.SIZE),
        (99, 1_000, Reason.TIME),
        (1, 1_001, Reason.TIME),
        (0, 10**9, None),
    ],
)
def test_what_is_due(record_bytes: int, elapsed_ms: int, expected: Reason | None) -> None:
    settings = LogSettings(snapshot_record_bytes_max=100, snapshot_interval_ms=1_000)
    assert due(settings, record_bytes=record_bytes, elapsed_ms=elapsed_ms) is expected


def test_without_an_interval_the_time_does_not_count() -> None:
    settings = LogSettings(snapshot_record_bytes_max=100, snapshot_interval_ms=0)
    assert due(settings, record_bytes=99, elapsed_ms=10**12) is None
