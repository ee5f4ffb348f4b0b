"""The catalog knows the snapshots of a directory, serves them, and retires obsolete ones.

Source: KIP-630; Kafka's ``KafkaRaftLog`` (its map of snapshots, ``readSnapshot``, ``forgetSnapshotsBefore``).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pykraft.config import LogSettings
from pykraft.errors import ErrorCode, ProtocolError, StorageError
from pykraft.log.os_fs import OsFs
from pykraft.sim.machine.disk import VirtualDisk
from pykraft.snapshot.catalog import Catalog, Slice
from pykraft.snapshot.files import FileKind, checkpoint_path, list_snapshots, parse_snapshot_file
from pykraft.snapshot.retention import KeptSegment
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


def expired(catalog: Catalog, settings: LogSettings = NOTHING_KEPT, *, mono_ms: int = 0) -> list[object]:
    times = {"fetch_timeout_ms": FETCH_TIMEOUT_MS, "mono_ms": mono_ms, "wall_ms": TIMESTAMP_MS}
    return [*catalog.expired(settings, SEGMENTS, **times)]


def test_an_empty_directory_has_no_snapshots() -> None:
    catalog = Catalog.open(disk(), DIRECTORY, log_start_offset=Offset(0))
    assert (catalog.ids, catalog.oldest, catalog.newest) == ((), None, None)
    assert catalog.read(FIRST, 0, 10, mono_ms=0) is None
    assert expired(catalog) == []


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
    assert expired(catalog) == [FIRST, SECOND]
    catalog.read(SECOND, 0, 10, mono_ms=5)
    assert expired(catalog, mono_ms=5 + LogSettings().clean_interval_ms - 1) == [FIRST]
    assert expired(catalog, mono_ms=5 + LogSettings().clean_interval_ms) == [FIRST, SECOND]
    catalog.read(FIRST, 0, 10, mono_ms=7)
    assert expired(catalog, mono_ms=8) == []


@pytest.mark.conformance(110)
def test_one_that_is_fetched_slowly_is_kept_for_as_long_as_that_takes() -> None:
    _, catalog = three()
    for second in range(5 * 60):
        catalog.read(FIRST, 0, 10, mono_ms=second * 1_000)
        assert expired(catalog, mono_ms=second * 1_000 + 500) == []
    assert expired(catalog, mono_ms=(5 * 60 - 1) * 1_000 + LogSettings().clean_interval_ms) == [FIRST, SECOND]


def test_one_that_is_fetched_stays_for_a_fetch_timeout_however_often_old_ones_are_looked_for() -> None:
    """Campaign seed 13916: a node looked every 50 ms, and another one took 85 ms to write a slice."""
    _, catalog = three()
    often = replace(NOTHING_KEPT, clean_interval_ms=50)
    catalog.read(FIRST, 0, 10, mono_ms=5)
    assert expired(catalog, often, mono_ms=5 + FETCH_TIMEOUT_MS - 1) == []
    assert expired(catalog, often, mono_ms=5 + FETCH_TIMEOUT_MS) == [FIRST, SECOND]


@pytest.mark.conformance(106)
def test_what_is_retired_is_gone_and_cannot_be_asked_for() -> None:
    fs, catalog = three()
    catalog.read(FIRST, 0, 10, mono_ms=0)
    assert expired(catalog, mono_ms=LogSettings().clean_interval_ms) == [FIRST, SECOND]
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
