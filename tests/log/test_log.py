"""The log as its users see it: appends, rolls, reads, truncations, and reads during them.

Files that are deleted, renamed or replaced under a running node are noticed; the node's own changes are not.

Which bytes of a log leave the page cache: the oldest, only synced ones, a bounded number at a time.
"""

import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft import types
from pykraft.config import LogSettings
from pykraft.core.effects import InstallSnapshot, MoveLogStart, TruncateTo, WriteElectionState
from pykraft.errors import CorruptionError, ForeignDirectoryError, ReadError, StorageError, UsageError
from pykraft.log import log
from pykraft.log.directory import LogDirectory
from pykraft.log.lane import AppendBytes, OrderedLane
from pykraft.log.log import STEPS_MAX, Log
from pykraft.log.os_fs import OsFs
from pykraft.log.segment import SegmentView
from pykraft.log.small_files.proof_file import ProofFile
from pykraft.log.small_files.quarantine_file import QuarantineFile
from pykraft.log.small_files.quorum_state import ElectionStore
from pykraft.log.small_files.recovery_point import RecoveryPoint
from pykraft.protocol.batch import scan
from pykraft.protocol.records import decode_control, decode_values, encode_control_batch
from pykraft.sim.machine.disk import VirtualFile
from tests.disks import ScriptedDisk
from tests.log import logs

batch_shapes = st.lists(st.tuples(st.integers(1, 5), st.integers(1, 400), st.integers(0, 2)), max_size=30)


def built(shapes: list[tuple[int, int, int]]) -> list[logs.Batch]:
    """Batches of (record count, record size, epochs to go on by)."""
    batches: list[logs.Batch] = []
    offset, epoch = 0, 1
    for count, size_bytes, step in shapes:
        epoch += step
        batches.append(logs.batch(offset, count=count, size_bytes=size_bytes, epoch=epoch, fill=offset))
        offset += count
    return batches


def logs_of(fs: ScriptedDisk) -> list[str]:
    return [name for name in fs.listdir(logs.DIRECTORY) if name.endswith(".log")]


@pytest.mark.conformance(101, 102)
@given(batch_shapes, st.integers(1, 3000))
def test_what_was_appended_is_read_back(shapes: list[tuple[int, int, int]], size_bytes_max: int) -> None:
    batches = built(shapes)
    log, _ = logs.open_log(ScriptedDisk())
    logs.fill(log, batches)
    assert logs.content(log, size_bytes_max=size_bytes_max) == logs.bytes_of(batches)
    assert log.end_offset == (batches[-1][0].end_offset if batches else 0)
    assert log.last_epoch == (batches[-1][0].epoch if batches else 0)
    assert log.size_bytes == sum(map(len, logs.bytes_of(batches)))


@pytest.mark.conformance(101)
@given(batch_shapes)
def test_grouped_appends_leave_the_files_of_single_ones(shapes: list[tuple[int, int, int]]) -> None:
    batches, one, other = built(shapes), ScriptedDisk(), ScriptedDisk()
    log, _ = logs.open_log(one)
    logs.fill(log, batches)
    log.close()
    log, _ = logs.open_log(other)
    log.append(batches)
    log.close()
    assert one.listdir(logs.DIRECTORY) == other.listdir(logs.DIRECTORY)
    assert all(one.read(logs.DIRECTORY / name) == other.read(logs.DIRECTORY / name) for name in logs_of(one))
    assert [one.read(logs.DIRECTORY / name) for name in one.listdir(logs.DIRECTORY) if "index" in name] == [
        other.read(logs.DIRECTORY / name) for name in other.listdir(logs.DIRECTORY) if "index" in name
    ]


@given(batch_shapes)
def test_a_closed_log_opens_unchanged(shapes: list[tuple[int, int, int]]) -> None:
    fs = ScriptedDisk()
    log, _ = logs.open_log(fs)
    logs.fill(log, built(shapes))
    epochs = log.epochs
    log.close()
    before = {name: fs.read(logs.DIRECTORY / name) for name in fs.listdir(logs.DIRECTORY)}
    log, recovery = logs.open_log(fs)
    assert (log.epochs, recovery.truncated_bytes, recovery.corrupt, recovery.notes) == (epochs, 0, (), ())
    log.close()
    assert {name: fs.read(logs.DIRECTORY / name) for name in fs.listdir(logs.DIRECTORY)} == before


@pytest.fixture
def fs() -> ScriptedDisk:
    return ScriptedDisk()


@pytest.mark.conformance(104)
@pytest.mark.parametrize("cut", range(26))
def test_a_truncated_log_ends_where_it_was_cut_and_goes_on(fs: ScriptedDisk, cut: int) -> None:
    log, _ = logs.open_log(fs)
    batches = [logs.batch(2 * at, count=2, size_bytes=150, epoch=1 + at // 4, fill=at) for at in range(12)]
    logs.fill(log, batches)
    log.truncate_to(types.Offset(cut))
    kept = [one for one in batches if one[0].end_offset <= cut]
    assert logs.content(log) == logs.bytes_of(kept)
    assert log.end_offset == 2 * len(kept)
    assert log.generation == (1 if cut < 24 else 0)
    more = logs.run_of(log.end_offset, 9, epoch=9, size_bytes=300)
    logs.fill(log, more)
    epochs = log.epochs
    assert logs.content(log) == logs.bytes_of([*kept, *more])
    fs.kill()
    log, recovery = logs.open_log(fs)
    assert (logs.content(log), log.epochs) == (logs.bytes_of([*kept, *more]), epochs)
    assert (recovery.truncated_bytes, recovery.corrupt) == (0, ())


@pytest.mark.conformance(110)
def test_a_segment_rolls_before_it_grows_too_large(fs: ScriptedDisk) -> None:
    size_bytes = len(logs.batch(0)[1])
    log, _ = logs.open_log(fs, logs.AnySize(segment_size_bytes=3 * size_bytes, index_size_bytes_max=480))
    logs.fill(log, logs.run_of(0, 7))
    assert logs_of(fs) == [f"{offset:020d}.log" for offset in (0, 3, 6)]


@pytest.mark.conformance(110)
def test_a_batch_larger_than_a_segment_gets_one_of_its_own(fs: ScriptedDisk) -> None:
    log, _ = logs.open_log(fs, logs.AnySize(segment_size_bytes=100, index_size_bytes_max=480))
    logs.fill(log, logs.run_of(0, 3, size_bytes=500))
    assert logs_of(fs) == [f"{offset:020d}.log" for offset in (0, 1, 2)]


@pytest.mark.conformance(110)
def test_a_segment_rolls_when_its_timestamps_span_too_much(fs: ScriptedDisk) -> None:
    log, _ = logs.open_log(fs, LogSettings(segment_ms=1000, index_size_bytes_max=480))
    logs.fill(log, [logs.batch(at, time=time) for at, time in enumerate((500, 1500, 1501, 2501, 2400))])
    assert logs_of(fs) == [f"{offset:020d}.log" for offset in (0, 2)]


@pytest.mark.conformance(110)
def test_a_segment_rolls_when_an_index_is_full(fs: ScriptedDisk) -> None:
    log, _ = logs.open_log(fs, LogSettings(index_interval_bytes=0, index_size_bytes_max=36))
    logs.fill(log, [logs.batch(at, time=at) for at in range(7)])
    assert logs_of(fs) == [f"{offset:020d}.log" for offset in (0, 3, 6)]
    log.close()
    assert len(fs.read(logs.DIRECTORY / f"{0:020d}.timeindex")) == 24


@pytest.mark.conformance(110)
def test_a_segment_rolls_before_its_offsets_leave_int32(fs: ScriptedDisk) -> None:
    log, _ = logs.open_log(fs)
    first, second = logs.batch(0), logs.batch(1)
    data = bytearray(second[1])
    data[23:27] = (2**31 - 2).to_bytes(4, "big")
    wide = next(scan(data, verify_crc=False))[1]
    log.append([first, (wide, data)])
    log.append([logs.batch(wide.end_offset)])
    assert logs_of(fs) == [f"{offset:020d}.log" for offset in (0, 2**31)]


def test_a_group_is_one_write_for_each_segment_and_one_sync(fs: ScriptedDisk) -> None:
    log, _ = logs.open_log(fs, logs.ONE)
    logs.fill(log, logs.run_of(0, 1))
    fs.operations.clear()
    log.append(logs.run_of(1, 20))
    log.flush()
    name = f"{0:020d}.log"
    assert [one for one in fs.operations if one[1] == name] == [("pwrite", name), ("sync", name)]


def test_the_directory_is_synced_after_a_roll_and_not_otherwise(fs: ScriptedDisk) -> None:
    log, _ = logs.open_log(fs)
    logs.fill(log, logs.run_of(0, 1))
    fs.operations.clear()
    logs.fill(log, logs.run_of(1, 1))
    assert "sync_dir" not in dict(fs.operations)
    logs.fill(log, logs.run_of(2, 3, size_bytes=900))
    assert "sync_dir" in dict(fs.operations)


def test_the_recovery_point_is_written_with_each_flush_and_synced_when_idle(fs: ScriptedDisk) -> None:
    log, _ = logs.open_log(fs, logs.ONE)
    for at in range(3):
        logs.fill(log, logs.run_of(at, 1))
    fs.operations.clear()
    logs.fill(log, logs.run_of(3, 1))
    assert fs.operations == [("pwrite", f"{0:020d}.log"), ("sync", f"{0:020d}.log"), ("pwrite", "recovery-point")]
    log.settle()
    fs.operations.clear()
    log.settle()
    assert fs.operations == []
    point = RecoveryPoint.open(fs, logs.DIRECTORY)
    assert point is not None
    assert point.offset == 4


@pytest.mark.conformance(102)
def test_nothing_is_read_above_the_end_or_outside_the_log() -> None:
    log, _ = logs.open_log(ScriptedDisk())
    assert log.read(types.Offset(0), 100) == b""
    logs.fill(log, logs.run_of(0, 3))
    assert log.read(types.Offset(3), 100) == b""
    for offset in (-1, 4):
        with pytest.raises(UsageError, match="from 0 to 3"):
            log.read(types.Offset(offset), 100)


@pytest.mark.conformance(102, 143)
def test_a_read_takes_whole_batches_only_and_stays_in_one_segment() -> None:
    log, _ = logs.open_log(ScriptedDisk(), logs.AnySize(segment_size_bytes=1000, index_size_bytes_max=480))
    batches = logs.run_of(0, 20)
    size_bytes = len(batches[0][1])
    logs.fill(log, batches)
    assert len(log.read(types.Offset(0), 1)) == size_bytes
    assert len(log.read(types.Offset(0), 2 * size_bytes - 1)) == size_bytes
    assert len(log.read(types.Offset(0), 2 * size_bytes)) == 2 * size_bytes
    assert len(log.read(types.Offset(0), 10**6)) == 1000 // size_bytes * size_bytes


@pytest.mark.conformance(116)
@pytest.mark.parametrize("position", range(0, 200, 7))
def test_damage_is_found_by_the_reader(fs: ScriptedDisk, position: int) -> None:
    log, _ = logs.open_log(fs, logs.ONE)
    logs.fill(log, logs.run_of(0, 4, size_bytes=40))
    path = logs.DIRECTORY / f"{0:020d}.log"
    damaged = bytearray(fs.read(path))
    damaged[position] ^= 4
    is_epoch = 12 <= position % (len(damaged) // 4) < 16
    fs.write(path, bytes(damaged))
    if is_epoch:
        return
    with pytest.raises(CorruptionError, match=r"0{20}\.log: at position"):
        logs.content(log, size_bytes_max=10**6)


def test_a_reader_overtaken_by_a_truncation_reads_again(fs: ScriptedDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    log, _ = logs.open_log(fs)
    logs.fill(log, logs.run_of(0, 30, size_bytes=100))
    read = SegmentView.read

    def overtaken(view: SegmentView, offset: types.Offset, size_bytes_max: int) -> types.Buffer:
        monkeypatch.undo()
        log.truncate_to(types.Offset(3))
        logs.fill(log, logs.run_of(3, 9, epoch=2, size_bytes=77))
        return read(view, offset, size_bytes_max)

    monkeypatch.setattr(SegmentView, "read", overtaken)
    assert log.read(types.Offset(4), 1) == logs.batch(4, epoch=2, size_bytes=77)[1]
    assert log.generation == 1


def test_a_view_taken_before_a_truncation_finds_no_file_of_a_removed_segment(fs: ScriptedDisk) -> None:
    log, _ = logs.open_log(fs)
    batches = logs.run_of(0, 30, size_bytes=300)
    logs.fill(log, batches)
    view = log._views[-1]
    generation = log.generation
    log.truncate_to(types.Offset(0))
    with pytest.raises(ReadError, match="no such file"):
        view.read(view.base_offset, 1)
    assert log.generation > generation, "which tells a reader that nothing is damaged"


@pytest.mark.no_cover  # other tests reach the same
def test_readers_on_other_threads_only_ever_see_sound_batches(tmp_path: Path) -> None:
    """Two threads read at random while the writer appends and truncates; a batch names its offset in its payload."""
    log, _ = logs.open_log(OsFs(), directory=tmp_path)
    logs.fill(log, [logs.batch(at, size_bytes=100, fill=at) for at in range(20)])
    is_done = threading.Event()

    def read_until_done(seed: int) -> int:
        random, reads = Random(seed), 0
        while not is_done.is_set() or not reads:
            with suppress(UsageError):
                data = log.read(types.Offset(random.randrange(log.end_offset + 1)), random.choice([1, 1000]))
                for position, header in scan(data):
                    values = decode_values(data[position : position + header.size_bytes])
                    assert values == [bytes([header.base_offset % 256]) * len(values[0])]
                    reads += 1
        return reads

    with ThreadPoolExecutor(2) as pool:
        readers = [pool.submit(read_until_done, seed) for seed in range(2)]
        random = Random(7)
        for epoch in range(2, 40):
            log.truncate_to(types.Offset(random.randrange(log.end_offset)))
            sizes = [random.choice([80, 100, 300]) for _ in range(random.randrange(1, 20))]
            base_offset = log.end_offset
            log.append(
                [
                    logs.batch(base_offset + at, epoch=epoch, size_bytes=size, fill=base_offset + at)
                    for at, size in enumerate(sizes)
                ]
            )
        is_done.set()
        assert all(reader.result() > 0 for reader in readers)
    assert log.generation > 20
    log.close()


@pytest.mark.conformance(103, 104, "H58")
def test_the_epoch_checkpoint_follows_appends_and_truncations(fs: ScriptedDisk) -> None:
    log, _ = logs.open_log(fs)
    logs.fill(log, [logs.batch(0, epoch=1), logs.batch(1, epoch=1), logs.batch(2, epoch=4), logs.batch(3, epoch=6)])
    path = logs.DIRECTORY / "leader-epoch-checkpoint"
    assert fs.read(path) == b"0\n3\n1 0\n4 2\n6 3\n"
    log.truncate_to(types.Offset(2))
    assert fs.read(path) == b"0\n1\n1 0\n"
    assert log.last_epoch == 1


@pytest.mark.conformance(101)
def test_a_control_batch_takes_offsets_like_any_other(fs: ScriptedDisk) -> None:
    log, _ = logs.open_log(fs)
    records: list[types.ControlRecord] = [
        types.LeaderChange(leader_id=types.NodeId(1), voters=(types.NodeId(1),), granting_voters=(types.NodeId(1),)),
        types.KRaftVersion(1),
    ]
    sealed = encode_control_batch(records, base_offset=types.Offset(0), epoch=types.Epoch(2), timestamp_ms=5)
    logs.fill(log, [sealed, logs.batch(2, epoch=2)])
    assert (log.end_offset, log.last_epoch) == (3, 2)
    (control, _) = logs.content(log)
    assert decode_control(control) == records
    fs.kill()
    assert logs.content(logs.open_log(fs)[0])[0] == sealed.data


@pytest.mark.conformance(101)
def test_batches_out_of_order_are_our_bug() -> None:
    log, _ = logs.open_log(ScriptedDisk())
    with pytest.raises(AssertionError, match="in order"):
        log.append([logs.batch(1)])
    log.append([logs.batch(0, epoch=5)])
    with pytest.raises(AssertionError, match="backwards"):
        log.append([logs.batch(1, epoch=4)])
    with pytest.raises(AssertionError, match="whole"):
        log.append([(logs.batch(1, epoch=5)[0], b"short")])


@pytest.mark.conformance(111)
def test_another_topics_directory_is_refused(fs: ScriptedDisk) -> None:
    logs.open_log(fs)
    with pytest.raises(ForeignDirectoryError, match=r"partition.metadata.*expected AAAAAAAAAAAAAAAAAAAAAQ"):
        type(logs.open_log(fs)[0]).open(fs, logs.DIRECTORY, config=logs.SMALL, topic_id=types.Uuid(bytes(15) + b"\1"))


def test_a_log_on_a_real_disk(tmp_path: Path) -> None:
    directory = tmp_path / "deep" / "topic-0"
    log, _ = logs.open_log(OsFs(), directory=directory)
    batches = logs.run_of(0, 40, size_bytes=200)
    logs.fill(log, batches)
    log.truncate_to(types.Offset(25))
    log.close()
    log, recovery = logs.open_log(OsFs(), directory=directory)
    assert logs.content(log) == logs.bytes_of(batches[:25])
    assert (recovery.recovery_point, recovery.truncated_bytes, recovery.notes) == (25, 0, ())
    log.close()
    assert logs.TOPIC_ID[-1] == 2


class Desk:
    """A lane on real files, with a batch in each segment."""

    def __init__(self, folder: Path) -> None:
        fs, self.path = OsFs(), folder / "topic-0"
        config = logs.AnySize(segment_size_bytes=1)
        self.log, _ = Log.open(fs, self.path, config=config, topic_id=types.Uuid(bytes([1]) * 16))
        notes = QuarantineFile(fs, self.path), ProofFile(fs, folder)
        self.directory = LogDirectory.open(
            fs,
            folder,
            node_id=types.NodeId(1),
            cluster_id="c",
            directory_id=None,
            random_uuid=lambda: types.Uuid(bytes(range(16))),
        )
        self.lane = OrderedLane(self.log, ElectionStore(fs, self.path), *notes, directory=self.directory)
        self.lane.check_files()
        self.lane.perform([WriteElectionState(io=types.Io(1), election=types.Election(), voters=(), kraft_version=0)])
        self.lane.perform([AppendBytes(io=types.Io(2), batches=logs.run_of(0, 6))])
        self.lane.check_files()

    @property
    def names(self) -> list[str]:
        return [view.path.name for view in self.log.views()]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def replace_by_a_copy(path: Path) -> None:
    shutil.copy(path, path.with_suffix(".copy"))
    path.with_suffix(".copy").replace(path)


def rename(path: Path) -> None:
    path.rename(path.with_suffix(".renamed"))


@pytest.mark.parametrize("harm", [shutil.rmtree, rename])
def test_a_directory_that_is_gone_is_noticed(desk: Desk, harm: Callable[[Path], None]) -> None:
    harm(desk.path)
    with pytest.raises(StorageError, match="topic-0: is gone, or something else is in its place"):
        desk.lane.check_files()


def test_a_copy_of_the_directory_is_another_one(desk: Desk) -> None:
    rename(desk.path)
    shutil.copytree(desk.path.with_suffix(".renamed"), desk.path)
    with pytest.raises(StorageError, match=f"{desk.names[-1]}: is gone, or something else"):
        desk.lane.check_files()


@pytest.mark.parametrize("harm", [Path.unlink, rename, replace_by_a_copy])
def test_the_newest_segment_must_be_the_open_file(desk: Desk, harm: Callable[[Path], None]) -> None:
    harm(desk.path / desk.names[-1])
    with pytest.raises(StorageError, match=f"{desk.names[-1]}: is gone"):
        desk.lane.check_files()


@pytest.mark.parametrize("name", ["quorum-state", "partition.metadata", "first", "second"])
def test_other_files_must_have_their_names(desk: Desk, name: str) -> None:
    name = {"first": desk.names[0], "second": desk.names[1]}.get(name, name)
    (desk.path / name).unlink()
    with pytest.raises(StorageError, match=f"{name}: is gone"):
        desk.lane.check_files()
    with pytest.raises(StorageError, match="nothing more is written after a failure"):
        desk.lane.check_files()


@pytest.mark.parametrize("harm", [Path.unlink, rename, replace_by_a_copy])
def test_name_of_the_lock_must_belong_to_the_lock_that_is_held(desk: Desk, harm: Callable[[Path], None]) -> None:
    harm(desk.directory.path / ".lock")
    with pytest.raises(StorageError, match=r"\.lock: is gone, or another file is in its place"):
        desk.lane.check_files()


def test_what_the_node_removes_itself_is_not_missed(desk: Desk) -> None:
    for job in (
        TruncateTo(io=types.Io(3), end_offset=types.Offset(4)),
        MoveLogStart(io=types.Io(4), snapshot_id=types.OffsetAndEpoch(types.Offset(2), types.Epoch(1))),
        AppendBytes(io=types.Io(5), batches=logs.run_of(4, 2)),
        InstallSnapshot(io=types.Io(6), snapshot_id=types.OffsetAndEpoch(types.Offset(9), types.Epoch(1))),
    ):
        before = desk.names
        desk.lane.perform([job])
        assert desk.names != before
        desk.lane.check_files()


BATCH_SIZE_BYTES = len(logs.batch(0)[1])
STEP_SIZE_BYTES = 2 * BATCH_SIZE_BYTES
KEPT_SIZE_BYTES = 10 * BATCH_SIZE_BYTES


@pytest.fixture
def uncached(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, int]]:
    """Name of the file, position and size in batches of everything that leaves the page cache."""
    found: list[tuple[str, int, int]] = []

    def note(file: VirtualFile, position: int, size_bytes: int) -> None:
        found.append((file._path.name, position // BATCH_SIZE_BYTES, size_bytes // BATCH_SIZE_BYTES))

    monkeypatch.setattr(VirtualFile, "uncache", note)
    monkeypatch.setattr(log, "CACHED_SIZE_BYTES_MAX", KEPT_SIZE_BYTES)
    monkeypatch.setattr(log, "STEP_SIZE_BYTES", STEP_SIZE_BYTES)
    return found


def grow(log: Log, count: int) -> None:
    log.append(logs.run_of(log.end_offset, count))
    log.flush()
    log.relieve()


def test_the_newest_bytes_stay_and_older_ones_leave_step_by_step(uncached: list[tuple[str, int, int]]) -> None:
    log, _ = logs.open_log(ScriptedDisk(), logs.ONE)
    grow(log, 11)
    assert uncached == []
    grow(log, 1)
    name = f"{0:020d}.log"
    assert uncached == [(name, 0, 2)]
    grow(log, 5)
    assert uncached == [(name, 0, 2), (name, 2, 2), (name, 4, 2)]


def test_a_turn_gives_back_a_bounded_number_of_bytes(uncached: list[tuple[str, int, int]]) -> None:
    log, _ = logs.open_log(ScriptedDisk(), logs.ONE)
    grow(log, 40)
    assert len(uncached) == STEPS_MAX
    grow(log, 1)
    assert len(uncached) == 2 * STEPS_MAX


def test_it_goes_on_across_segments(uncached: list[tuple[str, int, int]]) -> None:
    log, _ = logs.open_log(ScriptedDisk(), logs.SMALL)
    for _ in range(100):
        grow(log, 1)
    sizes = {f"{view.base_offset:020d}.log": view.size_bytes // BATCH_SIZE_BYTES for view in log.views()}
    left: dict[str, int] = dict.fromkeys(sizes, 0)
    for name, position, size in uncached:
        assert position == left[name]
        left[name] += size
    total = sum(left.values())
    assert 100 - 10 - 2 < total <= 100 - 10
    gone = [name for name in sizes if left[name] == sizes[name]]
    assert gone == list(sizes)[: len(gone)]
    assert len(gone) >= 2


def test_after_a_truncation_only_what_is_written_later_counts(uncached: list[tuple[str, int, int]]) -> None:
    log, _ = logs.open_log(ScriptedDisk(), logs.SMALL)
    grow(log, 60)
    uncached.clear()
    log.truncate_to(types.Offset(3))
    log.relieve()
    grow(log, 3)
    assert uncached == []


@pytest.mark.parametrize("begins_anew", [False, True])
def test_removed_segments_are_not_touched(uncached: list[tuple[str, int, int]], *, begins_anew: bool) -> None:
    log, _ = logs.open_log(ScriptedDisk(), logs.SMALL)
    for _ in range(60):
        grow(log, 1)
    uncached.clear()
    if begins_anew:
        log.begin_anew_at(types.Offset(100))
    else:
        log.delete_before(types.Offset(50))
    first = log.views()[0].base_offset
    log.relieve()
    for _ in range(60):
        grow(log, 1)
    assert uncached
    assert all(name >= f"{first:020d}" for name, _, _ in uncached)
