"""How often a busy writer syncs the recovery point, and who waits for that.

Source: rules of ours (ADR 059).
"""

from __future__ import annotations

from random import Random

import pytest

from pykraft.log.log import POINT_FLUSHES_MAX, POINT_SIZE_BYTES_MAX
from pykraft.log.small_files.recovery_point import RecoveryPoint
from tests.disks import ScriptedDisk
from tests.log.logs import DIRECTORY, ONE, fill, open_log, run_of

SYNC = ("sync", "recovery-point")


@pytest.mark.parametrize(("size_bytes", "flushes"), [(100, POINT_FLUSHES_MAX), (POINT_SIZE_BYTES_MAX, 1)])
def test_a_busy_writer_syncs_the_recovery_point_now_and_then(size_bytes: int, flushes: int) -> None:
    fs = ScriptedDisk()
    log, _ = open_log(fs, ONE)
    fill(log, run_of(0, 1))
    log.settle()
    for at in range(2 * flushes):
        fs.operations.clear()
        fill(log, run_of(1 + at, 1, size_bytes=size_bytes))
        assert (SYNC in fs.operations) == (at > 0 and (at + 1) % flushes == 0)
    fs.power_loss(Random(1))
    point = RecoveryPoint.open(fs, DIRECTORY)
    assert point is not None
    assert point.offset >= log.end_offset - flushes - 1


@pytest.mark.parametrize(("size_bytes", "flushes"), [(100, POINT_FLUSHES_MAX // 2), (POINT_SIZE_BYTES_MAX, 1)])
def test_no_flush_waits_for_it_if_the_log_is_relieved_in_between(size_bytes: int, flushes: int) -> None:
    fs = ScriptedDisk()
    log, _ = open_log(fs, ONE)
    fill(log, run_of(0, 1))
    log.settle()
    for at in range(4 * flushes):
        fs.operations.clear()
        fill(log, run_of(1 + at, 1, size_bytes=size_bytes))
        assert SYNC not in fs.operations
        log.relieve()
        assert (SYNC in fs.operations) == ((at + 1) % flushes == 0)
