"""Which snapshots are deleted, by size and age; never the newest or one that is being fetched.

A snapshot is due after so many bytes or so much time, and never without new records.

Source: KIP-630 §When to Delete Snapshots; Kafka's ``KafkaRaftLog.maybeClean``. Keeping a snapshot for its readers is
ours; KIP-630 §When to Snapshot, KIP-876; Kafka's ``SnapshotGenerator``.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.config import LogSettings
from pykraft.snapshot.retention import KeptSegment, KeptSnapshot, Reason, due, expired
from pykraft.types import Offset
from tests.snapshot.snapshots import id_of

FOR_EVER = LogSettings(retention_size_bytes_max=-1, retention_age_ms_max=-1)
NOW_MS = 10_000


def snapshots(*sizes: int) -> list[KeptSnapshot]:
    """At offsets 100, 200, ... and times 1,000, 2,000, ..."""
    return [
        KeptSnapshot(snapshot_id=id_of(100 * n, 1), size_bytes=size, last_contained_log_timestamp=1_000 * n)
        for n, size in enumerate(sizes, 1)
    ]


def segments(*ends: int) -> list[KeptSegment]:
    return [KeptSegment(end_offset=Offset(end), size_bytes=100) for end in ends]


def offsets(settings: LogSettings, sizes: list[int], ends: list[int], in_use: tuple[int, ...] = ()) -> list[int]:
    used = [id_of(offset, 1) for offset in in_use]
    found = expired(settings, snapshots(*sizes), segments(*ends), in_use=used, now_ms=NOW_MS)
    return [each.offset for each in found]


@pytest.mark.conformance(110)
@pytest.mark.parametrize(
    ("age_ms_max", "expected"),
    [(-1, []), (9_000, []), (8_999, [100]), (8_000, [100]), (7_000, [100, 200]), (0, [100, 200])],
)
def test_old_ones_go_but_never_the_newest(age_ms_max: int, expected: list[int]) -> None:
    settings = LogSettings(retention_size_bytes_max=-1, retention_age_ms_max=age_ms_max)
    assert offsets(settings, [10, 10, 10], [350]) == expected


@pytest.mark.conformance(110)
@pytest.mark.parametrize(
    ("size_bytes_max", "expected"),
    [
        (-1, []),
        (430, []),
        (429, [100]),  # 420 with the segment up to offset 100, which stays: it ends behind the next one's start
        (420, [100]),
        (419, [100, 200]),
        (0, [100, 200]),
    ],
)
def test_what_is_too_large_goes_until_it_is_not(size_bytes_max: int, expected: list[int]) -> None:
    settings = LogSettings(retention_size_bytes_max=size_bytes_max, retention_age_ms_max=-1)
    assert offsets(settings, [10, 10, 10], [210, 220, 230, 350]) == expected


def test_the_segments_that_go_with_a_snapshot_count_no_more() -> None:
    settings = LogSettings(retention_size_bytes_max=250, retention_age_ms_max=-1)
    assert offsets(settings, [10, 10, 10, 10], [200, 300, 450]) == [100]
    assert offsets(settings, [10, 10, 10, 10], [201, 300, 450]) == [100, 200]


def test_the_last_segment_takes_appends_and_stays() -> None:
    settings = LogSettings(retention_size_bytes_max=50, retention_age_ms_max=-1)
    assert offsets(settings, [10, 10], [150]) == [100]
    assert offsets(settings, [10, 10, 10], [100, 200]) == [100, 200]


@pytest.mark.parametrize(
    ("in_use", "expected"), [((100,), []), ((200,), [100]), ((300,), [100, 200]), ((7,), [100, 200])]
)
def test_one_that_is_read_stays_with_all_later_ones(in_use: tuple[int, ...], expected: list[int]) -> None:
    settings = LogSettings(retention_size_bytes_max=0, retention_age_ms_max=0)
    assert offsets(settings, [10, 10, 10], [350], in_use) == expected


@pytest.mark.parametrize("count", [0, 1])
def test_nothing_goes_where_there_is_nothing_later(count: int) -> None:
    assert offsets(LogSettings(retention_size_bytes_max=0, retention_age_ms_max=0), [10] * count, [350]) == []


@given(
    sizes=st.lists(st.integers(0, 500), max_size=6),
    ends=st.lists(st.integers(0, 700), max_size=6).map(sorted),
    size_bytes_max=st.integers(-1, 2_000),
    age_ms_max=st.integers(-1, 12_000),
    in_use=st.sets(st.integers(1, 6)),
)
def test_what_goes_are_the_oldest_and_no_more_than_it_takes(
    sizes: list[int], ends: list[int], size_bytes_max: int, age_ms_max: int, in_use: set[int]
) -> None:
    settings = LogSettings(retention_size_bytes_max=size_bytes_max, retention_age_ms_max=age_ms_max)
    used = tuple(100 * n for n in in_use)
    gone = offsets(settings, sizes, ends, used)
    assert gone == [100 * n for n in range(1, len(gone) + 1)]
    assert len(gone) < max(len(sizes), 1)
    assert not set(gone) & set(used)
    if gone:
        start_offset, kept = gone[-1], sizes[len(gone) - 1 :]
        log_size_bytes = 100 * (sum(end > start_offset for end in ends[:-1]) + len(ends[-1:]))
        if len(gone) == 1:
            log_size_bytes = 100 * (sum(end > 0 for end in ends[:-1]) + len(ends[-1:]))
        is_large = 0 <= size_bytes_max < sum(kept) + log_size_bytes
        assert is_large or 0 <= age_ms_max < NOW_MS - 1_000 * len(gone)
    assert expired(FOR_EVER, snapshots(10**12, 1), [], in_use=(), now_ms=10**15) == []


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
