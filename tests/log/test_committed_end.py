"""What a log writes down of commits, so that a restart still knows them.

Source: ours (ADR 128).
"""

from __future__ import annotations

from random import Random

from pykraft.log.small_files.recovery_point import RecoveryPoint
from pykraft.types import Offset
from tests.disks import ScriptedDisk
from tests.log.logs import DIRECTORY, batch, fill, open_log, run_of


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
