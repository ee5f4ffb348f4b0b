"""The catalog serves the snapshots of a directory and retires obsolete ones, never the newest or one being fetched."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.config import LogSettings
from pykraft.errors import ErrorCode, ProtocolError, StorageError
from pykraft.log.os_fs import OsFs
from pykraft.sim.machine.disk import VirtualDisk
from pykraft.snapshot.catalog import Catalog, KeptSegment, KeptSnapshot, Reason, Slice, due, expired
from pykraft.snapshot.files import FileKind, checkpoint_path, list_snapshots, parse_snapshot_file
from pykraft.types import Offset
from tests.snapshot.snapshots import DIRECTORY, TIMESTAMP_MS, disk, id_of, write

FIRST, SECOND, THIRD = id_of(100, 2), id_of(50, 3), id_of(200, 3)
NOTHING_KEPT = LogSettings(retention_size_bytes_max=0, retention_age_ms_max=-1)
FETCH_TIMEOUT_MS = 2_000
SEGMENTS = [KeptSegment(end_offset=Offset(300), size_bytes=10)]


def three() -> tuple[VirtualDisk, Catalog]:
    fs = disk()
    for snapshot_id in (FIRST, SECOND, THIRD):
        write(fs, [str(snapshot_id).encode()], snapshot_id=snapshot_id)
    return fs, Catalog.open(fs, DIRECTORY, log_start_offset=Offset(0))


def expired_of(catalog: Catalog, settings: LogSettings = NOTHING_KEPT, *, mono_ms: int = 0) -> list[object]:
    times = {"fetch_timeout_ms": FETCH_TIMEOUT_MS, "mono_ms": mono_ms, "wall_ms": TIMESTAMP_MS}
    return [*catalog.expired(settings, SEGMENTS, **times)]


def test_an_empty_directory_has_no_snapshots() -> None:
    catalog = Catalog.open(disk(), DIRECTORY, log_start_offset=Offset(0))
    assert (catalog.ids, catalog.oldest, catalog.newest) == ((), None, None)
    assert catalog.read(FIRST, 0, 10, mono_ms=0) is None
    assert expired_of(catalog) == []


def test_snapshots_are_in_order_also_those_that_come_later() -> None:
    fs, catalog = three()
    assert list(catalog.ids) == [FIRST, SECOND, THIRD]
    write(fs, [b"x"], snapshot_id=id_of(60, 3))
    for _ in range(2):
        catalog.add(id_of(60, 3))
        assert list(catalog.ids) == [FIRST, SECOND, id_of(60, 3), THIRD]
    assert (catalog.oldest, catalog.newest) == (FIRST, THIRD)


@pytest.mark.conformance(121, "H23")
def test_a_snapshot_is_served_in_slices() -> None:
    fs, catalog = three()
    whole = fs.read(checkpoint_path(DIRECTORY, SECOND))
    found = [catalog.read(SECOND, position, 100, mono_ms=0) for position in range(0, len(whole), 100)]
    assert found == [Slice(whole[at : at + 100], len(whole)) for at in range(0, len(whole), 100)]
    assert catalog.read(id_of(50, 2), 0, 100, mono_ms=0) is None
    with pytest.raises(ProtocolError) as caught:
        catalog.read(SECOND, len(whole), 100, mono_ms=0)
    assert caught.value.code is ErrorCode.POSITION_OUT_OF_RANGE
    catalog.close()


@pytest.mark.conformance(110)
def test_one_that_is_fetched_is_kept_until_nobody_asks_any_more() -> None:
    _, catalog = three()
    assert expired_of(catalog) == [FIRST, SECOND]
    catalog.read(SECOND, 0, 10, mono_ms=5)
    assert expired_of(catalog, mono_ms=5 + LogSettings().clean_interval_ms - 1) == [FIRST]
    assert expired_of(catalog, mono_ms=5 + LogSettings().clean_interval_ms) == [FIRST, SECOND]
    catalog.read(FIRST, 0, 10, mono_ms=7)
    assert expired_of(catalog, mono_ms=8) == []


@pytest.mark.conformance(110)
def test_one_that_is_fetched_slowly_is_kept_for_as_long_as_that_takes() -> None:
    _, catalog = three()
    for second in range(5 * 60):
        catalog.read(FIRST, 0, 10, mono_ms=second * 1_000)
        assert expired_of(catalog, mono_ms=second * 1_000 + 500) == []
    assert expired_of(catalog, mono_ms=(5 * 60 - 1) * 1_000 + LogSettings().clean_interval_ms) == [FIRST, SECOND]


def test_one_that_is_fetched_stays_for_a_fetch_timeout_however_often_old_ones_are_looked_for() -> None:
    """Campaign seed 13916: a node looked every 50 ms, and another one took 85 ms to write a slice."""
    _, catalog = three()
    often = replace(NOTHING_KEPT, clean_interval_ms=50)
    catalog.read(FIRST, 0, 10, mono_ms=5)
    assert expired_of(catalog, often, mono_ms=5 + FETCH_TIMEOUT_MS - 1) == []
    assert expired_of(catalog, often, mono_ms=5 + FETCH_TIMEOUT_MS) == [FIRST, SECOND]


@pytest.mark.conformance(106)
def test_what_is_retired_is_gone_and_cannot_be_asked_for() -> None:
    fs, catalog = three()
    catalog.read(FIRST, 0, 10, mono_ms=0)
    assert expired_of(catalog, mono_ms=LogSettings().clean_interval_ms) == [FIRST, SECOND]
    assert catalog.retire_before(THIRD) == [FIRST, SECOND]
    assert catalog.ids == (THIRD,)
    assert catalog.read(FIRST, 0, 10, mono_ms=0) is None
    assert list_snapshots(fs, DIRECTORY) == [THIRD]
    kinds = [file.kind for file in filter(None, map(parse_snapshot_file, fs.listdir(DIRECTORY)))]
    assert kinds.count(FileKind.DELETED) == 2
    assert catalog.retire_before(THIRD) == []
    assert Catalog.open(fs, DIRECTORY, log_start_offset=Offset(200)).ids == (THIRD,)


def test_the_file_of_a_retired_snapshot_is_closed(tmp_path: Path) -> None:
    for snapshot_id in (FIRST, SECOND):
        write(OsFs(), [b"a"], tmp_path, snapshot_id)
    catalog = Catalog.open(OsFs(), tmp_path, log_start_offset=Offset(0))
    open_files = []
    for snapshot_id in (FIRST, SECOND):
        catalog.read(snapshot_id, 0, 10, mono_ms=0)
        open_files.append(catalog._served[snapshot_id].raw)
    catalog.retire_before(SECOND)
    with pytest.raises(StorageError):
        open_files[0].read(0, 10)
    assert len(open_files[1].read(0, 10)) == 10
    catalog.close()
    with pytest.raises(StorageError):
        open_files[1].read(0, 10)


def test_a_start_forgets_what_the_log_has_passed() -> None:
    fs, catalog = three()
    catalog.close()
    assert Catalog.open(fs, DIRECTORY, log_start_offset=Offset(100)).ids == (FIRST, THIRD)


def test_one_whose_header_is_damaged_counts_as_the_oldest() -> None:
    fs, catalog = three()
    fs.open(checkpoint_path(DIRECTORY, FIRST), write=True).pwrite([b"\0\0\0\0"], 17)
    a_week = LogSettings(retention_size_bytes_max=-1)
    assert catalog.expired(a_week, SEGMENTS, fetch_timeout_ms=0, mono_ms=0, wall_ms=TIMESTAMP_MS) == [FIRST]


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
