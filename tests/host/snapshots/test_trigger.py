"""When a listener is asked to save: by bytes, by time, at the end of what was committed, and never for nothing.

Source: KIP-630 §When to Snapshot; Kafka's ``SnapshotGenerator``, which asks only while nothing waits in its queue.
"""

from __future__ import annotations

import pytest

from pykraft.config import LogSettings
from pykraft.host.snapshots.trigger import SnapshotTrigger
from pykraft.snapshot.catalog import Reason
from pykraft.types import Offset, OffsetAndEpoch
from tests.snapshot.snapshots import id_of


class Counted:
    """One listener's count; a snapshot is due after 100 bytes, or after a second."""

    def __init__(self, *, interval_ms: int = 1_000) -> None:
        self.wakes = 0
        self.saving = SnapshotTrigger(
            LogSettings(snapshot_record_bytes_max=100, snapshot_interval_ms=interval_ms), self._wake
        )

    def _wake(self) -> None:
        self.wakes += 1

    def given(self, offset: int, size_bytes: int, high_watermark: int) -> None:
        self.saving.given(id_of(offset, 1), size_bytes, Offset(high_watermark))

    def poll(self, mono_ms: int, high_watermark: int = 0) -> None:
        self.saving.poll(mono_ms, Offset(high_watermark))


def test_so_many_bytes_make_it_due_once() -> None:
    counted = Counted()
    counted.given(3, 60, 3)
    assert counted.saving.take() is None
    counted.given(5, 40, 5)
    assert counted.saving.take() == (id_of(5, 1), Reason.SIZE)
    assert counted.saving.take() is None
    counted.given(6, 99, 6)
    assert counted.saving.take() is None


def test_who_is_behind_is_asked_where_the_committed_log_ended_when_it_was_due() -> None:
    counted = Counted()
    counted.given(5, 100, 20)
    assert counted.saving.take() is None
    counted.given(19, 1_000, 30)
    assert counted.saving.take() is None
    counted.given(21, 10, 40)
    assert counted.saving.take() == (id_of(21, 1), Reason.SIZE)


def test_time_counts_from_the_first_poll_and_only_with_records() -> None:
    counted = Counted()
    counted.poll(500)
    assert counted.saving.next_deadline_ms is None
    counted.poll(5_000)
    assert counted.saving.take() is None
    counted.given(3, 1, 3)
    assert counted.saving.next_deadline_ms == 1_500
    counted.poll(5_001, 3)
    assert counted.saving.next_deadline_ms is None
    assert counted.saving.take() == (id_of(3, 1), Reason.TIME)


@pytest.mark.parametrize("interval_ms", [0, 1_000])
def test_a_count_that_begins_anew_begins_its_time_anew(interval_ms: int) -> None:
    counted = Counted(interval_ms=interval_ms)
    counted.poll(0)
    counted.given(3, 99, 3)
    counted.saving.begin_anew()
    counted.given(4, 99, 4)
    counted.poll(10_000, 4)
    assert counted.saving.take() is None
    assert counted.saving.next_deadline_ms == (11_000 if interval_ms else None)


def test_whoever_keeps_the_time_is_woken_when_it_begins_to_count() -> None:
    counted = Counted()
    counted.given(3, 1, 3)
    assert counted.wakes == 1
    counted.given(4, 1, 4)
    assert counted.wakes == 1
    counted.saving.begin_anew()
    assert counted.wakes == 2


def test_nothing_given_is_nothing_to_save() -> None:
    counted = Counted()
    counted.poll(0)
    counted.poll(10**9)
    assert counted.saving.take() is None
    end: OffsetAndEpoch = id_of(1, 1)
    counted.saving.given(end, 100, Offset(1))
    counted.saving.begin_anew()
    assert counted.saving.take() is None
