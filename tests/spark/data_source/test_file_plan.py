"""From options to a range of the log: offsets, times, ends, and a live directory that changes during planning."""

from contextlib import closing
from math import ceil
from pathlib import Path

import pytest

from pykraft.errors import StorageError, UsageError
from pykraft.log.os_fs import OsFs
from pykraft.log.small_files.recovery_point import RecoveryPoint
from pykraft.protocol.records import decode_records
from pykraft.spark.data_source import file_plan
from pykraft.spark.data_source.file_plan import find_replicas, plan_batch, replica_names, split_size_bytes
from pykraft.spark.data_source.options import SourceOptions, parse_options
from pykraft.spark.data_source.splits import Bounds, read_chunks
from pykraft.spark.data_source.walk import STRIDE_SIZE_BYTES, Cursor, ReplicaLog
from pykraft.types import Epoch, Offset
from tests.spark.logs import EPOCH, START_MS, batch, write_segment

OTHERS = Path(__file__).parents[2] / "protocol" / "batches"

SNAPSHOT = "00000000000000000006-0000000003.checkpoint"


def read(directory: Path, **options: str) -> list[int]:
    """The offsets that a query reads."""
    parsed, (replica,) = asked(directory, **options)
    found: list[int] = []
    for split in plan_batch(replica, parsed).splits:
        for part in read_chunks(split):
            wanted = range(part.split.start_offset, part.split.end_offset)
            for position, header in part.headers.pairs():
                offsets = [each.offset for each in decode_records(part.data[position : position + header.size_bytes])]
                found += [offset for offset in offsets if offset in wanted]
    return found


def asked(directory: Path, **options: str) -> tuple[SourceOptions, list[ReplicaLog]]:
    parsed = parse_options({"path": str(directory)} | options)
    return parsed, find_replicas(parsed.patterns)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Offsets 0 to 7, two a batch, each batch ten ms after the one before; the last in a segment of its own."""
    made = [batch([b"a", b"b"], base_offset=2 * index, timestamp_ms=START_MS + 10 * index) for index in range(4)]
    write_segment(tmp_path, b"".join(made[:3]))
    write_segment(tmp_path, made[3], base_offset=6)
    return tmp_path


@pytest.mark.parametrize(
    ("options", "offsets"),
    [
        ({}, range(8)),
        ({"startingOffsets": "3"}, range(3, 8)),
        ({"startingOffsets": "earliest", "endingOffsets": "latest"}, range(8)),
        ({"startingOffsets": "latest"}, []),
        ({"startingOffsets": "8"}, []),
        ({"endingOffsets": "5"}, range(5)),
        ({"startingOffsets": "3", "endingOffsets": "5"}, range(3, 5)),
        ({"startingOffsets": "5", "endingOffsets": "5"}, []),
        ({"endingOffsets": "0"}, []),
        ({"startingTimestamp": str(START_MS + 10)}, range(2, 8)),
        ({"startingTimestamp": str(START_MS + 11)}, range(4, 8)),
        ({"startingTimestamp": str(START_MS + 99)}, []),
        ({"endingTimestamp": str(START_MS + 20)}, range(4)),
        ({"endingTimestamp": str(START_MS)}, []),
        ({"endingTimestamp": str(START_MS + 99)}, range(8)),
        ({"startingTimestamp": "0", "endingTimestamp": str(START_MS + 1)}, range(2)),
    ],
)
def test_bounds(options: dict[str, str], offsets: range, log: Path) -> None:
    assert read(log, **options) == list(offsets)


def test_what_is_committed_is_what_the_node_noted(log: Path) -> None:
    with pytest.raises(UsageError, match="does not say how far it is committed"):
        read(log, endingOffsets="committed")
    with closing(RecoveryPoint.create(OsFs(), log, Offset(8))) as point:
        assert read(log, endingOffsets="committed") == []
        point.raise_to(Offset(8), Offset(6))
        assert read(log, endingOffsets="committed") == list(range(6))
        assert read(log, endingOffsets="committed", startingOffsets="7") == []


def test_an_offset_for_one_replica(log: Path) -> None:
    (replica,) = find_replicas([str(log)])
    assert read(log, startingOffsets=f'{{"{replica.name}": 6}}') == [6, 7]
    assert read(log, startingOffsets='{"another": 6}') == list(range(8))


def test_an_offset_that_is_gone_is_refused(log: Path) -> None:
    (log / "00000000000000000000.log").unlink()
    (log / SNAPSHOT).touch()
    assert read(log) == [6, 7]
    with pytest.raises(UsageError, match="the log begins at 6"):
        read(log, startingOffsets="5")


def test_a_log_whose_beginning_is_lost_is_not_read_from_its_earliest_offset(log: Path) -> None:
    """Nobody would notice that rows are missing; no node starts on such a directory either."""
    (log / "00000000000000000000.log").unlink()
    with pytest.raises(StorageError, match=r"no snapshot reaches that far.*startingOffsets=6, or by naming segments"):
        read(log)
    assert read(log, startingOffsets="6") == [6, 7]
    assert read(log / "*.log") == [6, 7]


@pytest.mark.parametrize("path", sorted(OTHERS.glob("*.bin")), ids=lambda path: path.stem)
def test_a_time_within_another_client_s_batch_is_that_of_the_record(path: Path, tmp_path: Path) -> None:
    data = path.read_bytes()
    records = decode_records(data)
    write_segment(tmp_path, data, base_offset=records[0].offset)
    times = sorted({record.timestamp_ms for record in records})
    assert len(times) > 1
    for time_ms in times:
        first = next(record.offset for record in records if record.timestamp_ms >= time_ms)
        assert read(tmp_path, startingTimestamp=str(time_ms))[0] == first


def test_a_segment_that_vanishes_while_the_plan_is_made_is_no_error(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start = ReplicaLog.start
    (log / SNAPSHOT).touch()

    def start_then_delete(replica: ReplicaLog) -> Cursor:
        found = start(replica)
        (log / "00000000000000000000.log").unlink(missing_ok=True)
        return found

    monkeypatch.setattr(ReplicaLog, "start", start_then_delete)
    assert read(log) == [6, 7]


def test_a_file_that_cannot_be_read_is_an_error(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed, (replica,) = asked(log)

    def refuse(replica: ReplicaLog, cursor: Cursor) -> None:
        del cursor
        raise StorageError(replica.directory, "cannot be read")

    monkeypatch.setattr(ReplicaLog, "from_cursor", refuse)
    with pytest.raises(StorageError, match="cannot be read"):
        plan_batch(replica, parsed)


def test_tasks_follow_the_bytes_and_the_wish(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed, replicas = asked(log)
    total_bytes = sum(segment.stat().st_size for segment in log.glob("*.log"))
    assert split_size_bytes(replicas, parsed) == STRIDE_SIZE_BYTES, "one task for all of it"
    monkeypatch.setattr(file_plan, "STRIDE_SIZE_BYTES", 1)
    monkeypatch.setattr(file_plan, "SPLIT_SIZE_BYTES", total_bytes - 1)
    assert split_size_bytes(replicas, parsed) == ceil(total_bytes / 2), "two halves, not a crumb for the second task"
    monkeypatch.setattr(file_plan, "SPLIT_SIZE_BYTES", total_bytes // 8)
    monkeypatch.setattr(file_plan, "TASKS", 4)
    assert split_size_bytes(replicas, parsed) == total_bytes // 4, "a large log has larger splits, not more"
    monkeypatch.setattr(file_plan, "SPLIT_SIZE_BYTES_MIN", 1)
    parsed, _ = asked(log, minPartitions="10")
    assert split_size_bytes(replicas, parsed) == total_bytes // 10
    monkeypatch.setattr(file_plan, "SPLIT_SIZE_BYTES_MIN", 1024)
    assert split_size_bytes(replicas, parsed) == total_bytes // 4, "no split is tiny, and none larger for the wish"


@pytest.mark.parametrize(
    ("bounds", "offsets"),
    [
        (Bounds(offset_min=Offset(3)), [3, 4, 5, 6, 7]),
        (Bounds(offset_end=Offset(3)), [0, 1, 2]),
        (Bounds(offset_min=Offset(99)), []),
        (Bounds(epoch_min=Epoch(EPOCH + 1)), []),
        (Bounds(epoch_max=Epoch(EPOCH)), [0, 1, 2, 3, 4, 5, 6, 7]),
    ],
)
def test_filters_bound_the_plan(bounds: Bounds, offsets: list[int], log: Path) -> None:
    parsed, (replica,) = asked(log)
    found: set[int] = set()
    for split in plan_batch(replica, parsed, bounds=bounds).splits:
        for part in read_chunks(split):
            for _, header in part.headers.pairs():
                found.update(range(header.base_offset, header.end_offset))
        wanted = range(split.start_offset, split.end_offset)
        found = {offset for offset in found if offset in wanted}
    assert sorted(found) == offsets


def test_a_start_that_is_gone_is_the_log_start_if_that_may_be(tmp_path: Path) -> None:
    write_segment(tmp_path, batch([b"a", b"b"], base_offset=6), base_offset=6)
    (tmp_path / SNAPSHOT).touch()
    assert read(tmp_path, startingOffsets="2", failOnDataLoss="false") == [6, 7]
    assert read(tmp_path, startingOffsets="7", failOnDataLoss="false") == [7]
    with pytest.raises(UsageError, match="offset 2 is no longer there"):
        read(tmp_path, startingOffsets="2")


def segments_of(*patterns: str) -> dict[str, list[Path]]:
    """Segments by replica."""
    return {replica.name: list(replica.segments()) for replica in find_replicas(patterns)}


def test_segments_are_found_by_directory_file_and_glob(tmp_path: Path) -> None:
    files = [write_segment(tmp_path / name / "data" / "p-0", b"") for name in ("n1", "n2")]
    later = write_segment(tmp_path / "n1" / "data" / "p-0", b"", base_offset=10)
    (later.parent / "00000000000000000010.index").touch()
    (later.parent / "quorum-state").touch()
    expected = {"n1": [files[0], later], "n2": [files[1]]}
    assert segments_of(str(files[0].parent), str(files[1])) == expected
    assert segments_of(f"{tmp_path}/n*/data/p-0") == expected
    assert segments_of(f"{tmp_path}/n*/data/p-0/*.log", str(later)) == expected
    assert segments_of(f"{tmp_path}/n*/data/p-0/*10.log") == {"data": [later]}


def test_a_directory_grows_and_named_files_stay_what_they_are(tmp_path: Path) -> None:
    first = write_segment(tmp_path / "p-0", b"")
    (whole,) = find_replicas([str(first.parent), str(first)])
    (named,) = find_replicas([str(first)])
    second = write_segment(tmp_path / "p-0", b"", base_offset=10)
    assert list(whole.segments()) == [first, second]
    assert list(named.segments()) == [first]


def test_one_directory_is_one_replica_by_whatever_name(tmp_path: Path) -> None:
    segment = write_segment(tmp_path / "n[1]" / "p-0", b"")
    (tmp_path / "link").symlink_to(segment.parent)
    assert segments_of(str(segment.parent), str(tmp_path / "link"), str(segment)) == {"n[1]": [segment]}


@pytest.mark.parametrize("pattern", ["absent", "", "*.txt"])
def test_a_pattern_without_segments_is_an_error(pattern: str, tmp_path: Path) -> None:
    write_segment(tmp_path / "p-0", b"")
    with pytest.raises(UsageError, match="no segment files; give partition directories"):
        find_replicas([str(tmp_path / "p-0"), str(tmp_path / pattern)])


def test_a_replica_is_named_by_what_tells_it_from_the_others() -> None:
    alone, one, two = Path("/var/data/n1/p-0"), Path("/var/n1/data/p-0"), Path("/var/n2/data/p-0")
    assert replica_names([alone]) == {alone: "n1"}
    assert replica_names([one, two]) == {one: "n1", two: "n2"}
    assert replica_names([one.parent, one]) == {one.parent: "/var/n1/data", one: "p-0"}
