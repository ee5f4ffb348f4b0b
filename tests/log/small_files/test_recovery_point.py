"""The recovery point: when it is written and durable, what a damaged one means, and the commits that it knows."""

from random import Random

import pytest

from pykraft.errors import CorruptionError
from pykraft.log.small_files.recovery_point import FILE_NAME, Point, RecoveryPoint, parse_recovery_point
from pykraft.log.small_files.slots import SlotFile
from pykraft.types import Offset
from tests.disks import ScriptedDisk
from tests.log.logs import DIRECTORY, batch, disk, fill, open_log, run_of


def committed_of(fs: ScriptedDisk) -> tuple[int, int]:
    point = RecoveryPoint.open(fs, DIRECTORY)
    assert point is not None
    return point.offset, point.committed_end_offset


def offset_of(fs: ScriptedDisk) -> int:
    point = RecoveryPoint.open(fs, DIRECTORY)
    assert point is not None
    return point.offset


def test_an_absent_file_says_nothing() -> None:
    assert RecoveryPoint.open(disk(), DIRECTORY) is None


def test_it_is_durable_from_its_creation() -> None:
    fs = disk()
    RecoveryPoint.create(fs, DIRECTORY, Offset(12))
    fs.power_loss(Random(1))
    assert offset_of(fs) == 12


def test_raising_never_syncs_and_loses_at_most_what_was_not_synced() -> None:
    for seed in range(20):
        fs = disk()
        point = RecoveryPoint.create(fs, DIRECTORY, Offset(0))
        point.raise_to(Offset(10))
        point.settle()
        fs.operations.clear()
        for offset in (20, 20, 30):
            point.raise_to(Offset(offset))
        assert fs.operations == [("pwrite", FILE_NAME)] * 2
        assert offset_of(fs) == 30
        fs.power_loss(Random(seed))
        assert offset_of(fs) in (10, 20, 30)


def test_it_says_how_far_the_log_is_committed_and_that_is_never_above_it() -> None:
    fs = disk()
    point = RecoveryPoint.create(fs, DIRECTORY, Offset(5))
    assert committed_of(fs) == (5, 0)
    for offset, committed, expected in ((10, 7, (10, 7)), (10, 8, (10, 8)), (12, 99, (12, 12)), (20, 3, (20, 12))):
        point.raise_to(Offset(offset), Offset(committed))
        assert committed_of(fs) == expected
    point.raise_to(Offset(21))
    assert committed_of(fs) == (21, 12)
    fs.operations.clear()
    point.raise_to(Offset(21), Offset(12))
    assert fs.operations == [], "that is written already"


@pytest.mark.parametrize(("offset", "expected"), [(15, (15, 12)), (12, (12, 12)), (7, (7, 7))])
def test_the_committed_end_falls_with_it(offset: int, expected: tuple[int, int]) -> None:
    fs = disk()
    point = RecoveryPoint.create(fs, DIRECTORY, Offset(0))
    point.raise_to(Offset(20), Offset(12))
    point.lower_to(Offset(offset))
    fs.power_loss(Random(1))
    assert committed_of(fs) == expected


def test_a_file_of_an_older_version_tells_nothing_of_commits() -> None:
    fs = disk()
    SlotFile.create(fs, DIRECTORY / FILE_NAME, b"12")
    assert committed_of(fs) == (12, 0)
    content = fs.read(DIRECTORY / FILE_NAME)
    assert parse_recovery_point(DIRECTORY / FILE_NAME, content) == Point(Offset(12), Offset(0))


def test_settling_makes_it_durable_once() -> None:
    fs = disk()
    point = RecoveryPoint.create(fs, DIRECTORY, Offset(0))
    point.raise_to(Offset(10))
    point.settle()
    fs.operations.clear()
    point.settle()
    assert fs.operations == []
    fs.power_loss(Random(1))
    assert offset_of(fs) == 10


def test_lowering_is_durable_when_it_returns() -> None:
    for seed in range(20):
        fs = disk()
        point = RecoveryPoint.create(fs, DIRECTORY, Offset(0))
        point.raise_to(Offset(30))
        point.lower_to(Offset(7))
        fs.power_loss(Random(seed))
        assert offset_of(fs) == 7


def test_it_neither_rises_by_lowering_nor_falls_by_raising() -> None:
    point = RecoveryPoint.create(disk(), DIRECTORY, Offset(10))
    point.lower_to(Offset(20))
    point.raise_to(Offset(5))
    assert point.offset == 10
    point.close()


@pytest.mark.parametrize("payload", [b"", b"-1", b"x", b"1" * 20, b"5 ", b"5 x", b"5 4 3", b"5 6"])
def test_a_payload_that_is_no_offset_is_refused_with_the_repair(payload: bytes) -> None:
    fs = disk()
    SlotFile.create(fs, DIRECTORY / FILE_NAME, payload)
    with pytest.raises(CorruptionError, match=r"recovery-point: .*expected an offset.*remove recovery-point"):
        RecoveryPoint.open(fs, DIRECTORY)


def committed_on_disk(fs: ScriptedDisk) -> int:
    point = RecoveryPoint.open(fs, DIRECTORY)
    assert point is not None
    return point.committed_end_offset


def test_what_is_committed_is_written_with_the_next_flush_or_when_idle_and_known_after_a_restart() -> None:
    fs = ScriptedDisk()
    log, _ = open_log(fs)
    fill(log, run_of(0, 3))
    log.commit_to(Offset(2))
    log.commit_to(Offset(1))
    assert (log.committed_end_offset, committed_on_disk(fs)) == (2, 0)
    fill(log, run_of(3, 1))
    assert committed_on_disk(fs) == 2
    log.commit_to(Offset(3))
    log.settle()
    fs.power_loss(Random(1))
    assert open_log(fs)[0].committed_end_offset == 3


def test_what_is_not_flushed_is_not_written_down_as_committed() -> None:
    fs = ScriptedDisk()
    log, _ = open_log(fs)
    fill(log, run_of(0, 2))
    log.append([batch(2)])
    log.commit_to(Offset(3))
    log.settle()
    assert committed_on_disk(fs) == 2
    log.flush()
    assert committed_on_disk(fs) == 3


def test_a_log_that_is_cut_is_committed_no_further_than_it_reaches() -> None:
    fs = ScriptedDisk()
    log, _ = open_log(fs)
    fill(log, run_of(0, 5))
    log.commit_to(Offset(4))
    log.settle()
    log.truncate_to(Offset(2))
    assert (log.committed_end_offset, committed_on_disk(fs)) == (2, 2)
