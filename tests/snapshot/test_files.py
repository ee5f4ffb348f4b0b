"""Snapshot files by name: which count, in what order, and which a start or a removal leaves."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.errors import StorageError
from pykraft.log.os_fs import OsFs
from pykraft.snapshot import files
from pykraft.types import Epoch, Offset, OffsetAndEpoch
from tests.snapshot.snapshots import DIRECTORY, ID, disk, id_of, write

STEM = "00000000000000000157-0000000003"
ids = st.builds(OffsetAndEpoch, st.integers(0, 2**63 - 1).map(Offset), st.integers(0, 2**31 - 1).map(Epoch))


def touch(directory: Path, *names: str) -> None:
    for name in names:
        (directory / name).write_bytes(b"x")


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


@pytest.mark.conformance(127)
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (f"{STEM}.checkpoint", files.SnapshotFile(snapshot_id=ID, kind=files.FileKind.WHOLE)),
        (f"{STEM}.checkpoint.part", files.SnapshotFile(snapshot_id=ID, kind=files.FileKind.PART)),
        (f"{STEM}-5678901234567890.checkpoint.part", files.SnapshotFile(snapshot_id=ID, kind=files.FileKind.PART)),
        (
            f"{STEM}-0000000007.checkpoint.part",
            files.SnapshotFile(snapshot_id=ID, kind=files.FileKind.PART, leader_epoch=Epoch(7)),
        ),
        (f"{STEM}.checkpoint.deleted", files.SnapshotFile(snapshot_id=ID, kind=files.FileKind.DELETED)),
        (
            "00000000000000000000-0000000000.checkpoint",
            files.SnapshotFile(snapshot_id=files.BOOTSTRAP_ID, kind=files.FileKind.WHOLE),
        ),
        ("bootstrap.checkpoint", None),
        ("00000000000000000157.log", None),
        ("00000000000000000157.snapshot", None),
        (f"{STEM}.checkpoint.tmp", None),
        (f"{STEM}-0000000007.checkpoint", None),
        (f"{STEM}-0000000007.checkpoint.deleted", None),
        (f"1{STEM}.checkpoint", None),
        (f"{STEM[1:]}.checkpoint", None),
        ("99999999999999999999-0000000003.checkpoint", None),
        ("00000000000000000157-9999999999.checkpoint", None),
    ],
)
def test_names_say_what_a_file_is_and_wrong_ones_say_nothing(name: str, expected: files.SnapshotFile | None) -> None:
    assert files.parse_snapshot_file(name) == expected


@given(snapshot_id=ids, leader_epoch=st.none() | st.integers(0, 2**31 - 1).map(Epoch))
def test_names_come_back(snapshot_id: OffsetAndEpoch, leader_epoch: Epoch | None) -> None:
    whole = files.parse_snapshot_file(files.checkpoint_path(DIRECTORY, snapshot_id).name)
    assert whole == files.SnapshotFile(snapshot_id=snapshot_id, kind=files.FileKind.WHOLE)
    part = files.parse_snapshot_file(files.part_path(DIRECTORY, snapshot_id, leader_epoch=leader_epoch).name)
    assert part == files.SnapshotFile(snapshot_id=snapshot_id, kind=files.FileKind.PART, leader_epoch=leader_epoch)


def test_an_epoch_counts_more_than_an_offset() -> None:
    expected = [id_of(0, 0), id_of(900, 1), id_of(100, 2), id_of(101, 2)]
    assert files.in_order(reversed(expected)) == expected


def test_only_whole_snapshots_are_listed_the_newest_last(tmp_path: Path) -> None:
    wanted = [id_of(90, 1), id_of(20, 2), id_of(30, 2)]
    touch(tmp_path, *(files.checkpoint_path(tmp_path, each).name for each in wanted))
    touch(tmp_path, f"{STEM}.checkpoint.part", f"{STEM}.checkpoint.deleted", "bootstrap.checkpoint", "a.log")
    assert files.list_snapshots(OsFs(), tmp_path) == wanted


@pytest.mark.conformance(106)
def test_a_retired_snapshot_no_longer_counts_and_can_be_read_until_it_is_removed() -> None:
    fs = disk()
    data = write(fs, [b"a"])
    reader = fs.open(files.checkpoint_path(DIRECTORY, ID))
    files.retire(fs, DIRECTORY, ID)
    assert files.list_snapshots(fs, DIRECTORY) == []
    assert fs.listdir(DIRECTORY) == [f"{STEM}.checkpoint.deleted"]
    fs.lose_power()
    assert fs.listdir(DIRECTORY) == [f"{STEM}.checkpoint.deleted"]
    fs.remove(DIRECTORY / f"{STEM}.checkpoint.deleted")
    assert reader.inode.cached == data


def test_what_is_missing_cannot_be_retired(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=STEM):
        files.retire(OsFs(), tmp_path, ID)


@pytest.mark.conformance(108)
def test_a_start_removes_what_was_left_over_and_what_the_log_has_passed(tmp_path: Path) -> None:
    kept = ["00000000000000000000.log", f"{STEM}-0000000007.checkpoint.part", f"{STEM}.checkpoint", "quorum-state"]
    touch(tmp_path, *kept)
    touch(
        tmp_path,
        "00000000000000000156-0000000003.checkpoint",
        "00000000000000000000-0000000000.checkpoint",
        f"{STEM}.checkpoint.deleted",
        f"{STEM}.checkpoint.part",
        f"{STEM}-0000000006.checkpoint.part",
        f"{STEM}-1234567890123456.checkpoint.part",
    )
    found = files.clean_at_start(OsFs(), tmp_path, log_start_offset=Offset(157), leader_epoch=Epoch(7))
    assert found == [ID]
    assert names(tmp_path) == kept
    assert files.clean_at_start(OsFs(), tmp_path, log_start_offset=Offset(157)) == [ID]
    assert names(tmp_path) == [name for name in kept if not name.endswith(".part")]


def test_what_a_start_relies_on_is_durable() -> None:
    for seed in range(30):
        fs = disk(seed)
        write(fs, [b"a"])
        fs.rename(files.checkpoint_path(DIRECTORY, ID), files.checkpoint_path(DIRECTORY, id_of(158, 3)))
        fs.drop_handles()
        assert files.clean_at_start(fs, DIRECTORY, log_start_offset=Offset(0)) == [id_of(158, 3)]
        fs.lose_power()
        assert files.list_snapshots(fs, DIRECTORY) == [id_of(158, 3)]


def test_parts_of_other_downloads_are_removed(tmp_path: Path) -> None:
    mine = files.part_path(tmp_path, ID, leader_epoch=Epoch(7))
    written_here = files.part_path(tmp_path, ID)
    others = [
        files.part_path(tmp_path, ID, leader_epoch=Epoch(6)),
        files.part_path(tmp_path, id_of(9, 1), leader_epoch=Epoch(7)),
    ]
    touch(tmp_path, *(path.name for path in (mine, written_here, *others)))
    assert files.remove_fetched_parts(OsFs(), tmp_path, but=mine) == 2
    assert names(tmp_path) == [mine.name, written_here.name]
    assert files.remove_fetched_parts(OsFs(), tmp_path) == 1
