"""Recovery after every kind of stop: files cut at each byte, power lost at each operation, damage, Kafka's leftovers.

The promise under test: what recovers is a prefix of what was written, it holds every batch that was acknowledged, and
it is durable when `Log.open` returns, also where a snapshot or a cleaning moved the log start.

Source: Kafka's ``LogLoader``, ``KafkaRaftLog.truncateToLatestSnapshot``; KIP-595, KIP-630; Rebello et al., Can
Applications Recover from fsync Failures? (USENIX ATC 2020).
"""

import re
import shutil
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from pykraft.config import LogSettings
from pykraft.errors import UnusableLogError, UsageError
from pykraft.log.log import Log
from pykraft.log.offline.verify import verify
from pykraft.log.os_fs import OsFs
from pykraft.log.recovery import recover
from pykraft.log.scrub import Scrub, find_damage
from pykraft.log.small_files.recovery_point import RecoveryPoint
from pykraft.sim.machine.disk import Interrupted
from pykraft.types import Epoch, EpochStart, Offset, Uuid
from tests.disks import ScriptedDisk
from tests.log.logs import DIRECTORY, ONE, SMALL, Batch, batch, bytes_of, content, fill, open_log, run_of

GOLDEN = Path(__file__).parent.parent / "golden"
LOG_0 = DIRECTORY / f"{0:020d}.log"
POINT = DIRECTORY / "recovery-point"


def directory_with(batches: list[Batch], config: LogSettings = SMALL) -> ScriptedDisk:
    """A directory that was closed cleanly."""
    fs = ScriptedDisk()
    log, _ = open_log(fs, config)
    fill(log, batches)
    log.close()
    return fs


def without_point(fs: ScriptedDisk) -> ScriptedDisk:
    """As if Kafka had written the directory."""
    fs.remove(POINT)
    fs.sync_dir(DIRECTORY)
    return fs


def files_of(fs: ScriptedDisk) -> dict[str, bytes]:
    return {name: fs.read(DIRECTORY / name) for name in fs.listdir(DIRECTORY)}


def test_an_empty_directory_becomes_an_empty_log() -> None:
    fs = ScriptedDisk()
    log, recovery = open_log(fs)
    assert (log.start_offset, log.end_offset, log.epochs) == (0, 0, [])
    assert (recovery.recovery_point, recovery.notes, recovery.corrupt) == (None, (), ())
    log.close()
    assert fs.listdir(DIRECTORY) == [
        f"{0:020d}.index",
        f"{0:020d}.log",
        f"{0:020d}.timeindex",
        "leader-epoch-checkpoint",
        "partition.metadata",
        "recovery-point",
    ]


@pytest.mark.parametrize("count", [1, 4])
def test_a_log_cut_at_every_byte_of_its_last_batches(count: int) -> None:
    batches = [batch(at, epoch=1 + at // 3, size_bytes=30, fill=at) for at in range(6)]
    whole = b"".join(bytes_of(batches))
    last_size_bytes = len(b"".join(bytes_of(batches[-count:])))
    for size_bytes in range(len(whole) - last_size_bytes, len(whole) + 1):
        fs = without_point(directory_with(batches, ONE))
        fs.write(LOG_0, whole[:size_bytes])
        log, recovery = open_log(fs, ONE)
        kept = size_bytes // len(batches[0][1])
        assert content(log) == bytes_of(batches[:kept])
        assert recovery.truncated_bytes == size_bytes - kept * len(batches[0][1])
        assert bool(recovery.notes[1:]) == (recovery.truncated_bytes > 0)
        fill(log, run_of(kept, 2, epoch=5))
        assert content(log) == bytes_of([*batches[:kept], *run_of(kept, 2, epoch=5)])


def test_a_log_cut_at_every_byte_below_its_recovery_point_is_corrupt() -> None:
    batches = run_of(0, 4)
    whole = b"".join(bytes_of(batches))
    for size_bytes in range(len(whole)):
        fs = directory_with(batches)
        fs.write(LOG_0, whole[:size_bytes])
        before = files_of(fs)
        log, recovery = open_log(fs)
        kept = size_bytes // len(batches[0][1])
        assert [(one.path, one.start_offset, one.end_offset) for one in recovery.corrupt] == [(str(LOG_0), kept, 4)]
        assert content(log) == bytes_of(batches[:kept])
        assert files_of(fs) == before


@pytest.mark.parametrize("position", range(0, 312, 3))
def test_a_changed_byte_below_the_recovery_point_is_reported_and_nothing_is_touched(position: int) -> None:
    batches = run_of(0, 4)
    size_bytes = len(batches[0][1])
    fs = directory_with(batches)
    damaged = bytearray(fs.read(LOG_0))
    damaged[position] ^= 0x81
    fs.write(LOG_0, bytes(damaged))
    before = files_of(fs)
    log, recovery = open_log(fs)
    (damage,) = recovery.corrupt
    hit = position // size_bytes
    assert (damage.path, damage.position) == (str(LOG_0), hit * size_bytes)
    assert (damage.start_offset, damage.end_offset) == (hit, 4)
    assert log.end_offset == damage.start_offset
    with pytest.raises(AssertionError):
        log.append(run_of(hit, 1))
    log.close()
    assert files_of(fs) == before


def test_each_damaged_segment_is_reported() -> None:
    batches = run_of(0, 60)
    fs = directory_with(batches)
    names = [name for name in fs.listdir(DIRECTORY) if name.endswith(".log")]
    assert len(names) > 2
    for name in names[:2]:
        damaged = bytearray(fs.read(DIRECTORY / name))
        damaged[200] ^= 1
        fs.write(DIRECTORY / name, bytes(damaged))
    _, recovery = open_log(fs)
    starts = [int(name[:20]) for name in names]
    assert [(Path(one.path).name, one.end_offset) for one in recovery.corrupt] == [
        (names[0], starts[1]),
        (names[1], starts[2]),
    ]


def test_a_missing_segment_below_the_recovery_point_is_corruption() -> None:
    fs = directory_with(run_of(0, 60))
    names = [name for name in fs.listdir(DIRECTORY) if name.endswith(".log")]
    fs.remove(DIRECTORY / names[1])
    _, recovery = open_log(fs)
    (damage,) = recovery.corrupt
    assert (Path(damage.path).name, damage.position) == (names[2], 0)
    assert (damage.start_offset, damage.end_offset) == (int(names[1][:20]), int(names[2][:20]))
    assert "a segment that begins at offset" in damage.found


def test_a_log_without_segments_below_its_recovery_point_is_corruption() -> None:
    fs = directory_with(run_of(0, 3))
    for name in fs.listdir(DIRECTORY):
        if name.startswith("0"):
            fs.remove(DIRECTORY / name)
    _, recovery = open_log(fs)
    assert [(one.start_offset, one.end_offset, one.found) for one in recovery.corrupt] == [(0, 3, "the end of the log")]


def test_a_log_ends_where_offsets_leave_a_hole_and_keeps_the_batches_after_it() -> None:
    batches = [batch(0), batch(1), batch(3), batch(4)]
    fs = without_point(directory_with([batch(0)]))
    fs.write(LOG_0, b"".join(bytes_of(batches)))
    log, recovery = open_log(fs)
    assert content(log) == bytes_of(batches[:2])
    assert fs.read(LOG_0) == b"".join(bytes_of(batches))
    (damage,) = recovery.corrupt
    assert (damage.expected, damage.found, damage.end_offset) == ("offset 2", "offset 3", None)


def test_a_changed_last_batch_in_kafkas_directory_is_removed_with_an_alarm() -> None:
    """Nothing shows whether it was ever synced."""
    batches = run_of(0, 4)
    fs = without_point(directory_with(batches))
    fs.write(LOG_0, fs.read(LOG_0)[:-1] + b"?")
    log, recovery = open_log(fs)
    assert content(log) == bytes_of(batches[:-1])
    assert "RECORDS MAY BE LOST" in recovery.alarms[0]


def test_a_log_ends_where_the_epoch_goes_backwards_and_keeps_the_damaged_batch() -> None:
    batches = [batch(0, epoch=2), batch(1, epoch=3), batch(2, epoch=2)]
    fs = without_point(directory_with([batch(0)]))
    fs.write(LOG_0, b"".join(bytes_of(batches)))
    log, recovery = open_log(fs)
    assert content(log) == bytes_of(batches[:2])
    assert fs.read(LOG_0) == b"".join(bytes_of(batches))
    (damage,) = recovery.corrupt
    assert (damage.expected, damage.found) == ("an epoch of at least 3", "epoch 2")


def test_segments_behind_a_torn_tail_and_stale_files_are_removed() -> None:
    batches = run_of(0, 60)
    fs = directory_with(batches)
    RecoveryPoint.create(fs, DIRECTORY, Offset(0)).close()
    names = [name for name in fs.listdir(DIRECTORY) if name.endswith(".log")]
    fs.write(DIRECTORY / names[1], fs.read(DIRECTORY / names[1])[:-1])
    for name in (f"{7:020d}.index", f"{0:020d}.log.deleted", f"{9:020d}.timeindex.cleaned", f"{9:020d}.snapshot"):
        fs.write(DIRECTORY / name, b"stale")
    log, _ = open_log(fs)
    end_offset = int(names[2][:20]) - 1
    assert content(log) == bytes_of(batches[:end_offset])
    assert [name for name in fs.listdir(DIRECTORY) if name.startswith("0")] == sorted(
        [names[0], names[1], f"{9:020d}.snapshot"]
        + [name.replace(".log", suffix) for name in names[:2] for suffix in (".index", ".timeindex")]
    )


@pytest.mark.conformance(108)
def test_a_log_without_its_beginning_needs_a_snapshot() -> None:
    fs = without_point(directory_with(run_of(0, 60)))
    names = [name for name in fs.listdir(DIRECTORY) if name.endswith(".log")]
    fs.remove(DIRECTORY / names[0])
    start = int(names[1][:20])
    for snapshot_offset, is_fine in ((start - 1, False), (start, True)):
        fs.write(DIRECTORY / f"{snapshot_offset:020d}-{3:010d}.checkpoint", b"")
        if is_fine:
            assert open_log(fs)[0].start_offset == start
        else:
            with pytest.raises(UnusableLogError, match=f"starts at offset {start} and no snapshot .*; restore"):
                open_log(fs)


def test_a_segment_in_the_midst_of_a_swap_is_refused() -> None:
    fs = directory_with(run_of(0, 3))
    fs.write(DIRECTORY / f"{0:020d}.log.swap", b"")
    with pytest.raises(UnusableLogError, match=r"swap: .*; start Kafka once"):
        open_log(fs)


def test_a_damaged_epoch_checkpoint_and_damaged_indexes_are_derived_again() -> None:
    fs = directory_with([batch(at, epoch=1 + at // 7, time=at) for at in range(60)])
    before = files_of(fs)
    for name in before:
        if name.endswith("index") or name == "leader-epoch-checkpoint":
            fs.write(DIRECTORY / name, b"\xff" * 37)
    log, recovery = open_log(fs)
    log.close()
    assert recovery.corrupt == ()
    assert files_of(fs) == before


def golden_partitions() -> list[Path]:
    found = sorted(path.parent for path in GOLDEN.glob("*/disk/n*/data/*/partition.metadata"))
    assert len(found) == 12
    return found


@pytest.mark.parametrize("source", golden_partitions(), ids=lambda path: "-".join(path.parts[-5:-2:2]))
def test_kafkas_directories_open_and_close_byte_for_byte(source: Path, tmp_path: Path) -> None:
    directory = tmp_path / source.name
    shutil.copytree(source, directory)
    topic_id = Uuid(bytes(15) + (b"\1" if source.name.startswith("__cluster") else b"\2"))
    log, recovery = Log.open(OsFs(), directory, config=LogSettings(), topic_id=topic_id)
    assert (recovery.truncated_bytes, recovery.corrupt) == (0, ())
    assert "no recovery-point file" in recovery.notes[0]
    assert sum(map(len, content(log))) == log.size_bytes
    log.close()
    for path in source.iterdir():
        if path.name.endswith(".deleted") and not path.name.endswith("checkpoint.deleted"):
            assert not (directory / path.name).exists()
        elif path.name == "leader-epoch-checkpoint":
            kept = (directory / path.name).read_text().splitlines()
            assert [line.split()[0] for line in kept][-1:] == [path.read_text().split()[-2]]
        elif not re.fullmatch(r"0+(93|0)\.(time)?index", path.name):
            assert (directory / path.name).read_bytes() == path.read_bytes()


@pytest.mark.parametrize("source", golden_partitions(), ids=lambda path: "-".join(path.parts[-5:-2:2]))
def test_a_rotten_byte_in_a_log_of_kafkas_removes_nothing(source: Path, tmp_path: Path) -> None:
    """An attack from outside: the node cut its log there, and voted without the acknowledged records behind it."""
    directory = tmp_path / source.name
    shutil.copytree(source, directory)
    segment = next(path for path in sorted(directory.glob("*.log")) if path.stat().st_size > 0)
    data = bytearray(segment.read_bytes())
    data[70] ^= 1
    segment.write_bytes(data)
    topic_id = Uuid(bytes(15) + (b"\1" if source.name.startswith("__cluster") else b"\2"))
    log, recovery = Log.open(OsFs(), directory, config=LogSettings(), topic_id=topic_id)
    log.close()
    (damage,) = recovery.corrupt
    assert (Path(damage.path), damage.position, recovery.truncated_bytes) == (segment, 0, 0)
    assert segment.read_bytes() == data
    (partition,) = verify(OsFs(), directory, on_progress=lambda count: None).partitions
    assert (partition.log.verdict, partition.log.sound_end_offset) == (recovery.verdict, damage.start_offset)


def test_only_what_is_above_the_recovery_point_is_written_again() -> None:
    fs = directory_with(run_of(0, 40))
    known = recover(fs, DIRECTORY, SMALL)
    assert len(known.segments) > 1
    fs.operations.clear()
    recover(fs, DIRECTORY, SMALL)
    assert [name for what, name in fs.operations if what == "pwrite" and name.endswith(".log")] == []
    fs.operations.clear()
    recover(without_point(fs), DIRECTORY, SMALL)
    rewritten = {name for what, name in fs.operations if what == "pwrite" and name.endswith(".log")}
    assert rewritten == {known.segments[-1].path.name}


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

    def read_meanwhile(operation: str, path: Path) -> bool:
        if operation == "rename":
            retired.append(path)
            assert find_damage(log, Offset(19)) is None
            assert Scrub(log).step(1 << 20, Offset(20)).damage is None
            with pytest.raises(UsageError, match="not in this log"):
                log.read(Offset(0), 1)
            assert log.read(Offset(50), 1) == b""
        return False

    fs.fail = read_meanwhile
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
