"""The beginning of a log: after a snapshot replaced it or cleaning moved it; power loss in between.

Source: KIP-630; Kafka's ``KafkaRaftLog.truncateToLatestSnapshot`` and ``deleteBeforeSnapshot``.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from pykraft.errors import UsageError
from pykraft.log.log import Log
from pykraft.log.scrub import Scrub, find_damage
from pykraft.sim.machine.disk import Interrupted
from pykraft.types import Epoch, EpochStart, Offset
from tests.disks import ScriptedDisk
from tests.log.logs import DIRECTORY, bytes_of, content, fill, open_log, run_of


def logs_of(fs: ScriptedDisk) -> list[str]:
    return [name for name in fs.listdir(DIRECTORY) if name.endswith(".log")]


def replaced(fs: ScriptedDisk) -> Log:
    """A log of three segments that is about to be replaced by a snapshot that ends at 50."""
    log, _ = open_log(fs)
    fill(log, run_of(0, 20, size_bytes=300))
    assert len(log.views()) > 2
    return log


@pytest.mark.conformance(107)
def test_a_log_that_begins_anew_is_empty_behind_the_snapshot_and_goes_on() -> None:
    fs = ScriptedDisk()
    log = replaced(fs)
    log.begin_anew_at(Offset(50))
    assert (log.start_offset, log.end_offset, log.epochs) == (50, 50, [])
    assert logs_of(fs) == [f"{50:020d}.log"]
    assert log.generation == 1
    batches = run_of(50, 3, epoch=4)
    fill(log, batches)
    log.close()
    fs.open(DIRECTORY / f"{50:020d}-{1:010d}.checkpoint", create=True).close()
    log, recovery = open_log(fs)
    assert (content(log), log.start_offset, recovery.corrupt) == (bytes_of(batches), 50, ())


def test_who_reads_while_a_log_begins_anew_finds_no_damage() -> None:
    fs = ScriptedDisk()
    log = replaced(fs)
    retired = []

    def look(operation: str, path: Path) -> bool:
        if operation == "rename":
            retired.append(path)
            assert find_damage(log, Offset(19)) is None
            assert Scrub(log).step(1 << 20, Offset(20)).damage is None
            with pytest.raises(UsageError, match="not in this log"):
                log.read(Offset(0), 1)
            assert log.read(Offset(50), 1) == b""
        return False

    fs.fail = look
    log.begin_anew_at(Offset(50))
    assert len(retired) > 2


@pytest.mark.conformance(107)
def test_power_loss_at_every_operation_of_a_new_beginning_leaves_a_sound_log() -> None:
    is_done = False
    last = 0
    while not is_done:
        last += 1
        fs = ScriptedDisk()
        log = replaced(fs)
        checkpoint = fs.open(DIRECTORY / f"{50:020d}-{1:010d}.checkpoint", create=True)
        checkpoint.sync()
        fs.sync_dir(DIRECTORY)
        fs.last_operation = len(fs.operations) + last
        with suppress(Interrupted):
            log.begin_anew_at(Offset(50))
            is_done = True
        fs.power_loss(Random(last))
        log, recovery = open_log(fs)
        assert recovery.corrupt == ()
        assert content(log) == bytes_of(run_of(0, 20, size_bytes=300))[log.start_offset : log.end_offset]
        assert log.end_offset <= 20 or log.start_offset == log.end_offset == 50
        log.begin_anew_at(Offset(50))
        assert log.end_offset == 50
    assert last > 10


@pytest.mark.conformance(107)
def test_a_damaged_log_may_begin_anew() -> None:
    fs = ScriptedDisk()
    log = replaced(fs)
    name = DIRECTORY / logs_of(fs)[0]
    log.close()
    fs.open(name, write=True).pwrite([b"\xff"], 70)
    log, recovery = open_log(fs)
    assert recovery.corrupt
    log.begin_anew_at(Offset(50))
    assert (log.start_offset, log.end_offset) == (50, 50)


@pytest.mark.conformance(110)
@pytest.mark.parametrize("offset", [0, 1, 7, 12, 19, 20])
def test_a_cleaned_log_loses_whole_segments_below_a_snapshot_only(offset: int) -> None:
    fs = ScriptedDisk()
    log = replaced(fs)
    bases = [view.base_offset for view in log.views()]
    kept = [base for base, end in zip(bases, [*bases[1:], 99], strict=True) if end > offset]
    fs.operations.clear()
    log.delete_before(Offset(offset))
    assert not [operation for operation in fs.operations if "remove" in str(operation)], "freeing takes a disk long"
    assert log.start_offset == offset
    assert logs_of(fs) == [f"{base:020d}.log" for base in kept]
    assert content(log) == bytes_of(run_of(0, 20, size_bytes=300))[offset:]
    fill(log, run_of(20, 2, epoch=2))
    log.truncate_to(Offset(20))
    log.close()
    fs.open(DIRECTORY / f"{20:020d}-{1:010d}.checkpoint", create=True).close()
    log, recovery = open_log(fs)
    assert (log.start_offset, log.end_offset, recovery.corrupt) == (kept[0], 20, ())
    assert log.epochs == [EpochStart(epoch=Epoch(1), start_offset=kept[0])]


def with_checkpoint(fs: ScriptedDisk, offset: int) -> None:
    """A snapshot that ends here; recovery looks at its name only."""
    fs.write(DIRECTORY / f"{offset:020d}-{1:010d}.checkpoint", b"")


@pytest.mark.conformance(110)
def test_power_loss_at_every_operation_of_a_cleaning_leaves_a_sound_log() -> None:
    """A file system may keep the rename of a later segment and lose that of an earlier one."""
    expected = bytes_of(run_of(0, 20, size_bytes=300))
    for seed in range(300):
        fs = ScriptedDisk()
        log = replaced(fs)
        if seed % 2:  # else the recovery point is not durable yet, and a gap looks like a torn tail
            log.settle()
        with_checkpoint(fs, 15)
        fs.last_operation = len(fs.operations) + seed % 20
        with suppress(Interrupted):
            log.delete_before(Offset(15))
        fs.power_loss(Random(seed))
        log, recovery = open_log(fs)
        assert (recovery.corrupt, log.end_offset) == ((), 20)
        assert content(log) == expected[log.start_offset :]


def gap(fs: ScriptedDisk) -> list[int]:
    """A log whose second segment is retired, and the first is not; the base offsets."""
    log = replaced(fs)
    bases = [int(view.base_offset) for view in log.views()]
    log.close()
    name = f"{bases[1]:020d}.log"
    fs.rename(DIRECTORY / name, DIRECTORY / f"{name}.deleted")
    return bases


def test_a_cleaning_that_a_power_loss_interrupted_is_finished() -> None:
    fs = ScriptedDisk()
    bases = gap(fs)
    with_checkpoint(fs, bases[2])
    log, recovery = open_log(fs)
    assert (log.start_offset, log.end_offset, recovery.corrupt) == (bases[2], 20, ())
    assert recovery.notes[0].endswith(f"had interrupted: the log begins at offset {bases[2]}")
    assert logs_of(fs) == [f"{base:020d}.log" for base in bases[2:]]
    assert not [name for name in fs.listdir(DIRECTORY) if name.endswith(".deleted")]


def test_a_segment_that_is_missing_above_the_snapshots_is_damage() -> None:
    fs = ScriptedDisk()
    bases = gap(fs)
    with_checkpoint(fs, bases[2] - 1)
    _, recovery = open_log(fs)
    assert [damage.start_offset for damage in recovery.corrupt] == [bases[1]]
