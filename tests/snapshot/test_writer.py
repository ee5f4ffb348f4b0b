"""Records become a complete snapshot or only a part, whatever happens; so does the checkpoint of formatting."""

from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft import types
from pykraft.client.serde import Serde, bytes_serde, text_serde
from pykraft.errors import RecordBatchTooLargeError, StorageError, UsageError
from pykraft.log.fs import Fs, make_directory
from pykraft.log.offline.verify_files import check_snapshot
from pykraft.log.offline.verify_findings import Findings
from pykraft.log.offline.verify_log import LogSummary
from pykraft.log.os_fs import OsFs
from pykraft.protocol.records import scan
from pykraft.sim.machine.disk import Interrupted, VirtualDisk
from pykraft.snapshot import writer as writer_module
from pykraft.snapshot.files import BOOTSTRAP_ID, checkpoint_path, clean_at_start, list_snapshots, part_path
from pykraft.snapshot.head import SnapshotReader
from pykraft.snapshot.writer import (
    BATCH_SIZE_BYTES,
    RECORD_SIZE_BYTES_MAX,
    RawWriter,
    SnapshotWriter,
    membership_in_snapshot,
    write_bootstrap,
)
from tests.core.replicas import voter_set
from tests.disks import ScriptedDisk
from tests.snapshot.snapshots import DIRECTORY, ID, TIMESTAMP_MS, VOTERS, begin, content, disk, write

HEADER, FOOTER = types.SnapshotHeader(TIMESTAMP_MS), types.SnapshotFooter()


@pytest.fixture
def fs() -> VirtualDisk:
    return disk()


@pytest.mark.conformance(126)
@pytest.mark.parametrize(
    ("kraft_version", "voters", "expected"),
    [
        (0, None, [HEADER]),
        (1, None, [HEADER, types.KRaftVersion(1)]),
        (1, VOTERS, [HEADER, types.KRaftVersion(1), types.KRaftVoters(VOTERS)]),
    ],
)
def test_a_snapshot_has_a_header_the_voters_and_a_footer(
    fs: VirtualDisk, kraft_version: int, voters: types.VoterSet | None, expected: list[types.ControlRecord]
) -> None:
    writer = SnapshotWriter(
        fs,
        DIRECTORY,
        ID,
        text_serde,
        last_contained_log_timestamp=TIMESTAMP_MS,
        kraft_version=kraft_version,
        voters=voters,
    )
    assert (writer.snapshot_id, writer.last_contained_log_offset, writer.last_contained_log_epoch) == (ID, 156, 3)
    assert (writer.last_contained_log_timestamp, writer.is_frozen) == (TIMESTAMP_MS, False)
    writer.append(["a", "bc"])
    writer.append(iter(["d"]))
    size_bytes = writer.freeze()
    assert writer.is_frozen
    data = fs.read(checkpoint_path(DIRECTORY, ID))
    assert len(data) == size_bytes
    assert content(data) == [expected, [b"a", b"bc", b"d"], [FOOTER]]
    offset = 0
    for _, header in scan(data):
        assert (header.base_offset, header.epoch, header.base_timestamp) == (offset, ID.epoch, TIMESTAMP_MS)
        offset = header.end_offset


@pytest.mark.conformance(126)
def test_voters_of_a_static_quorum_are_refused(fs: VirtualDisk) -> None:
    with pytest.raises(UsageError, match="holds no voters"):
        SnapshotWriter(fs, DIRECTORY, ID, bytes_serde, last_contained_log_timestamp=0, voters=VOTERS)
    assert fs.listdir(DIRECTORY) == []


def test_a_snapshot_may_be_empty_and_the_bootstrap_one_is(fs: VirtualDisk) -> None:
    writer = begin(fs, snapshot_id=BOOTSTRAP_ID)
    assert writer.last_contained_log_offset == -1
    writer.freeze()
    data = fs.read(DIRECTORY / "00000000000000000000-0000000000.checkpoint")
    assert content(data) == [[HEADER], [FOOTER]]


@pytest.mark.conformance("H36")
def test_batches_are_of_bounded_size_however_the_records_come() -> None:
    values = [bytes([n % 251]) * (n * 7_919 % 90_000 + 1) for n in range(60)]
    values.insert(30, b"x" * (2 * BATCH_SIZE_BYTES))
    at_once = write(disk(), values)
    fs = disk()
    writer = begin(fs)
    for value in values:
        writer.append([value])
    writer.freeze()
    frozen = fs.open(checkpoint_path(DIRECTORY, ID)).pread(len(at_once) + 1, 0)
    assert frozen == at_once, "the same records make the same bytes"
    batches = content(at_once)
    assert [value for batch in batches[1:-1] for value in batch] == values
    sizes = [header.size_bytes for _, header in scan(at_once)][1:-1]
    assert [size > BATCH_SIZE_BYTES + 61 for size in sizes] == [False, False, True, False, False]
    assert min(sizes[0], sizes[3]) > BATCH_SIZE_BYTES - 90_000, "a batch is closed when the next record does not fit"


def test_what_is_appended_is_written_when_a_batch_is_full_and_not_before(fs: VirtualDisk) -> None:
    writer = begin(fs)
    (part,) = fs.listdir(DIRECTORY)
    head_size_bytes = fs.open(DIRECTORY / part).size()
    writer.append([b"a" * 1_000])
    assert fs.open(DIRECTORY / part).size() == head_size_bytes
    writer.append([b"a" * 1_000] * 1_100)
    assert fs.open(DIRECTORY / part).size() > head_size_bytes + 1_000_000


def test_the_largest_record_fits_and_no_larger_one(fs: VirtualDisk) -> None:
    value = bytes(RECORD_SIZE_BYTES_MAX - 13)  # Frame: two varints of 4 bytes, five single bytes.
    data = write(fs, [value])
    assert content(data)[1] == [value]
    assert max(header.size_bytes for _, header in scan(data)) == 8 * 1024 * 1024
    writer = begin(disk())
    with pytest.raises(RecordBatchTooLargeError, match=f"takes {RECORD_SIZE_BYTES_MAX + 1} bytes, and at most"):
        writer.append([value + b"x"])


class OddSerde:
    """Makes what a record says."""

    def serialize(self, record: object) -> bytes:
        if isinstance(record, Exception):
            raise record
        return record  # type: ignore[return-value]

    def deserialize(self, data: bytes) -> object:
        return data


@pytest.mark.parametrize(
    ("record", "error", "words"),
    [
        (b"", UsageError, "at least one byte"),
        ("text", TypeError, "serialized a record as str, not as bytes"),
        (ValueError("odd"), ValueError, "odd"),
    ],
)
@pytest.mark.conformance(124)
def test_a_record_that_cannot_be_written_ends_the_snapshot(record: object, error: type[Exception], words: str) -> None:
    fs = disk()
    serde: Serde[object] = OddSerde()
    writer = SnapshotWriter(fs, DIRECTORY, ID, serde, last_contained_log_timestamp=0)
    with pytest.raises(error, match=words):
        writer.append([b"good", record])
    with pytest.raises(UsageError, match="was closed, or failed"):
        writer.append([b"good"])
    with pytest.raises(UsageError, match="was closed, or failed"):
        writer.freeze()
    assert not list_snapshots(fs, DIRECTORY)
    writer.close()
    assert fs.listdir(DIRECTORY) == []


@pytest.mark.conformance(124)
def test_what_is_closed_before_it_is_frozen_leaves_nothing(fs: VirtualDisk) -> None:
    writer = begin(fs)
    writer.append([b"a"])
    writer.close()
    writer.close()
    assert fs.listdir(DIRECTORY) == []


@pytest.mark.conformance(124)
def test_what_is_frozen_stays_and_takes_no_more(fs: VirtualDisk) -> None:
    data = write(fs, [b"a"])
    writer = begin(fs)
    writer.freeze()
    for act in (lambda: writer.append([b"b"]), writer.freeze):
        with pytest.raises(UsageError, match="is frozen"):
            act()
    writer.close()
    assert fs.read(checkpoint_path(DIRECTORY, ID)) == data


def test_a_snapshot_for_readers_with_a_limit_stops_there() -> None:
    writer = SnapshotWriter(
        disk(), DIRECTORY, ID, bytes_serde, last_contained_log_timestamp=0, size_bytes_max=3 * BATCH_SIZE_BYTES
    )
    with pytest.raises(UsageError, match="grows beyond"):
        writer.append([bytes(1_000)] * 5_000)


def test_verify_finds_nothing_wrong_with_it(tmp_path: Path) -> None:
    write(OsFs(), [bytes([n + 1]) * 400_000 for n in range(5)], tmp_path)
    findings = Findings()
    check_snapshot(OsFs(), checkpoint_path(tmp_path, ID), LogSummary(), findings, lambda _size_bytes: None)
    assert findings.damage_count == 0


@pytest.mark.conformance(125)
@given(
    sizes=st.lists(st.integers(1, 600_000), max_size=6),
    seed=st.integers(0, 2**32),
    operations=st.integers(0, 14),
    loses_power=st.booleans(),
)
def test_a_snapshot_that_is_there_after_a_crash_is_whole(
    sizes: list[int], seed: int, operations: int, loses_power: bool
) -> None:
    values = [bytes([n + 1]) * size_bytes for n, size_bytes in enumerate(sizes)]
    fs = disk(seed)
    fs.interrupt_within(operations, loses_power=loses_power)
    is_frozen = False
    try:
        write(fs, values)
        is_frozen = True
    except Interrupted:
        pass
    if loses_power:
        fs.lose_power()
    fs.drop_handles()
    found = clean_at_start(fs, DIRECTORY, log_start_offset=types.Offset(0), leader_epoch=types.Epoch(3))
    assert found in ([[ID]] if is_frozen else [[], [ID]])
    for snapshot_id in found:
        path = checkpoint_path(DIRECTORY, snapshot_id)
        data = fs.open(path).pread(fs.open(path).size(), 0)
        batches = content(data)
        assert [batches[0], batches[-1]] == [[HEADER], [FOOTER]]
        assert [value for batch in batches[1:-1] for value in batch] == values
    assert fs.listdir(DIRECTORY) == [checkpoint_path(DIRECTORY, each).name for each in found]


CHECKPOINT = checkpoint_path(DIRECTORY, ID)
PART = part_path(DIRECTORY, ID)
chunks_of_bytes = st.lists(st.binary(min_size=1, max_size=9_000), min_size=1, max_size=5)


def scripted_disk() -> ScriptedDisk:
    fs = ScriptedDisk()
    make_directory(fs, DIRECTORY)
    fs.operations.clear()
    return fs


def append_and_freeze(writer: RawWriter) -> None:
    writer.append([b"abc"])
    writer.freeze()


@pytest.mark.conformance(124, "H35")
def test_what_is_frozen_is_in_place_and_the_part_is_gone(tmp_path: Path) -> None:
    writer = RawWriter.create(OsFs(), tmp_path, ID)
    writer.append([b"ab", b"", b"c"])
    writer.append([b"def"])
    assert (writer.size_bytes, writer.is_frozen) == (6, False)
    assert [path.name for path in tmp_path.iterdir()] == [PART.name]
    writer.freeze()
    assert writer.is_frozen
    assert [path.name for path in tmp_path.iterdir()] == [CHECKPOINT.name]
    assert (tmp_path / CHECKPOINT.name).read_bytes() == b"abcdef"
    writer.abandon()
    assert (tmp_path / CHECKPOINT.name).exists()


@pytest.mark.conformance(124)
def test_what_is_abandoned_leaves_nothing(tmp_path: Path) -> None:
    writer = RawWriter.create(OsFs(), tmp_path, ID)
    writer.append([b"abc"])
    writer.abandon()
    writer.abandon()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.conformance(124)
def test_nothing_is_written_after_the_end(fs: VirtualDisk) -> None:
    frozen = RawWriter.create(fs, DIRECTORY, ID)
    frozen.freeze()
    closed = RawWriter.create(fs, DIRECTORY, ID)
    closed.close()
    for ended, reason in ((frozen, "is frozen"), (closed, "was closed")):
        for act in (lambda w: w.append([b"a"]), RawWriter.freeze, lambda w: w.cut(0), lambda w: w.read(1, 0)):
            with pytest.raises(UsageError, match=reason):
                act(ended)


def test_a_part_that_was_closed_goes_on_where_it_ended(fs: VirtualDisk) -> None:
    writer = RawWriter.create(fs, DIRECTORY, ID)
    writer.append([b"abcd"])
    writer.close()
    again = RawWriter(fs, PART, ID)
    assert again.size_bytes == 4
    assert again.read(9, 1) == b"bcd"
    again.cut(3)
    again.append([b"xy"])
    again.freeze()
    assert fs.read(CHECKPOINT) == b"abcxy"


def test_a_part_that_somebody_left_is_written_anew(fs: VirtualDisk) -> None:
    writer = RawWriter.create(fs, DIRECTORY, ID)
    writer.append([b"abcd"])
    writer.close()
    again = RawWriter.create(fs, DIRECTORY, ID)
    again.append([b"x"])
    again.freeze()
    assert fs.read(CHECKPOINT) == b"x"


def test_the_snapshot_that_came_first_stays(fs: VirtualDisk) -> None:
    first, second = RawWriter.create(fs, DIRECTORY, ID), RawWriter(fs, PART.with_name("other.part"), ID)
    first.append([b"first"])
    second.append([b"second"])
    first.freeze()
    second.freeze()
    assert second.is_frozen
    assert fs.read(CHECKPOINT) == b"first"
    assert fs.listdir(DIRECTORY) == [CHECKPOINT.name]


def test_a_snapshot_does_not_grow_beyond_its_limit(fs: VirtualDisk) -> None:
    writer = RawWriter.create(fs, DIRECTORY, ID, size_bytes_max=5)
    writer.append([b"abcde"])
    with pytest.raises(UsageError, match="grows beyond 5 bytes"):
        writer.append([b"f"])
    with pytest.raises(UsageError, match="was closed, or failed"):
        writer.freeze()


def test_positions_have_64_bits(tmp_path: Path) -> None:
    start = 2**32 + 5
    writer = RawWriter.create(OsFs(), tmp_path, ID)
    writer._file.truncate(start)
    writer.close()
    again = RawWriter(OsFs(), tmp_path / PART.name, ID)
    again.append([b"beyond"])
    assert again.size_bytes == start + 6
    assert again.read(10, start) == b"beyond"
    again.abandon()


def test_a_part_is_synced_as_it_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "SYNC_INTERVAL_BYTES", 10)
    fs = scripted_disk()
    writer = RawWriter.create(fs, DIRECTORY, ID)
    for _ in range(6):
        writer.append([b"abcd"])
    operations = [operation for operation, _ in fs.operations]
    assert operations == ["create", "truncate", *["pwrite", "pwrite", "pwrite", "sync"] * 2]
    writer.freeze()
    assert [operation for operation, _ in fs.operations][len(operations) :] == ["sync", "rename", "sync_dir"]


@pytest.mark.parametrize("operation", ["pwrite", "sync", "rename", "sync_dir"])
def test_a_failed_disk_ends_the_writer(operation: str) -> None:
    fs = scripted_disk()
    writer = RawWriter.create(fs, DIRECTORY, ID)
    fs.fail = lambda found, _path: found == operation
    with pytest.raises(StorageError):
        append_and_freeze(writer)
    fs.fail = lambda _operation, _path: False
    assert not writer.is_frozen
    with pytest.raises(UsageError, match="was closed, or failed"):
        append_and_freeze(writer)
    with pytest.raises(UsageError, match="was closed, or failed"):
        writer.freeze()
    writer.abandon()
    assert fs.listdir(DIRECTORY) == ([CHECKPOINT.name] if operation == "sync_dir" else [])


def freezes(fs: Fs, chunks: list[bytes]) -> bool:
    """Write and freeze a snapshot of these chunks; False when the disk interrupts that."""
    with suppress(Interrupted):
        writer = RawWriter.create(fs, DIRECTORY, ID)
        for chunk in chunks:
            writer.append([chunk])
        writer.freeze()
        return True
    return False


@pytest.mark.conformance(125)
@given(chunks=chunks_of_bytes, seed=st.integers(0, 2**32), operations=st.integers(0, 14), loses_power=st.booleans())
def test_a_checkpoint_that_is_there_after_a_crash_is_whole(
    chunks: list[bytes], seed: int, operations: int, loses_power: bool
) -> None:
    fs = disk(seed)
    fs.interrupt_within(operations, loses_power=loses_power)
    is_frozen = freezes(fs, chunks)
    if loses_power:
        fs.lose_power()
    fs.drop_handles()
    if is_frozen or fs.exists(CHECKPOINT):
        assert fs.read(CHECKPOINT) == b"".join(chunks)
    assert set(fs.listdir(DIRECTORY)) <= {CHECKPOINT.name, PART.name}


@given(chunks=chunks_of_bytes, seed=st.integers(0, 2**32), operations=st.integers(0, 14))
def test_neither_does_a_disk_that_reorders_show_half_a_checkpoint(
    chunks: list[bytes], seed: int, operations: int
) -> None:
    fs = scripted_disk()
    fs.last_operation = len(fs.operations) + operations
    is_frozen = freezes(fs, chunks)
    fs.power_loss(Random(seed))
    if is_frozen or fs.exists(CHECKPOINT):
        assert fs.read(CHECKPOINT) == b"".join(chunks)


@pytest.mark.parametrize(
    ("voters", "records"),
    [(voter_set(1, 2), (types.KRaftVersion(1), types.KRaftVoters(voter_set(1, 2)))), (None, (types.KRaftVersion(1),))],
)
def test_what_is_written_is_read(
    tmp_path: Path, voters: types.VoterSet | None, records: tuple[types.MembershipRecord, ...]
) -> None:
    fs, partition = OsFs(), tmp_path / "t-0"
    write_bootstrap(fs, partition, voters)
    assert list_snapshots(fs, partition) == [BOOTSTRAP_ID]
    assert membership_in_snapshot(fs, partition, types.Offset(0)) == (0, records)


def test_the_newest_snapshot_within_the_log_says_it_or_else_the_first_one_beyond(tmp_path: Path) -> None:
    """A damaged log that ended before all its snapshots left its node without voters (simulated seed 20007)."""
    fs = OsFs()
    for end_offset, voter_id in ((10, 1), (20, 2), (30, 3)):
        writer = SnapshotWriter(
            fs,
            tmp_path,
            types.OffsetAndEpoch(offset=types.Offset(end_offset), epoch=types.Epoch(1)),
            bytes_serde,
            last_contained_log_timestamp=0,
            kraft_version=1,
            voters=voter_set(voter_id),
        )
        writer.freeze()
        writer.close()
    for log_end, told_at, voter_id in ((9, 9, 1), (10, 10, 1), (25, 20, 2), (99, 30, 3)):
        found = membership_in_snapshot(fs, tmp_path, types.Offset(log_end))
        assert found == (told_at, (types.KRaftVersion(1), types.KRaftVoters(voter_set(voter_id))))


def test_without_a_snapshot_nothing_is_said(tmp_path: Path) -> None:
    assert membership_in_snapshot(OsFs(), tmp_path, types.Offset(9)) == (0, ())


def test_it_holds_no_records_of_an_application(tmp_path: Path) -> None:
    write_bootstrap(OsFs(), tmp_path, voter_set(1))

    class _AsItIs:
        def deserialize(self, data: bytes) -> bytes:
            return data

    reader = SnapshotReader(OsFs(), checkpoint_path(tmp_path, BOOTSTRAP_ID), BOOTSTRAP_ID, _AsItIs())
    assert [record for batch in reader for record in batch.records] == []
    reader.close()
