"""Strides by the offset index equal a walk over every header; a wrong index is noticed."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from pykraft.errors import CorruptionError, StorageError
from pykraft.spark.data_source import splits, strides
from pykraft.spark.data_source.segment_walk import BatchSpan
from pykraft.spark.data_source.splits import Limit, plan_splits, read_chunks
from pykraft.spark.data_source.strides import stride_over
from pykraft.spark.data_source.walk import ReplicaLog
from pykraft.types import Offset
from tests.spark.logs import EPOCH, batch, write_segment

COUNT = 12
BATCHES = [batch([b"%02d" % i, b"%02d" % i], base_offset=2 * i, epoch=EPOCH + i // 5) for i in range(4 * COUNT)]
SIZE_BYTES = len(BATCHES[0])
Entries = Sequence[tuple[int, int]]


def entries(every: int) -> Entries:
    """Last offset delta and position of each so many-th batch, as a node writes them."""
    return [(2 * at + 1, at * SIZE_BYTES) for at in range(every, COUNT, every)]


def write_index(segment: Path, found: Entries, *, rest: bytes = b"") -> None:
    segment.with_suffix(".index").write_bytes(b"".join(struct.pack(">ii", *each) for each in found) + rest)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Three segments that are done, of twelve batches of two offsets each, and the newest, as long."""
    for number in range(4):
        own = BATCHES[number * COUNT : (number + 1) * COUNT]
        segment = write_segment(tmp_path, b"".join(own), base_offset=2 * COUNT * number)
        write_index(segment, entries(3))
    return tmp_path


def strode(directory: Path, *, start: int = 0, size_bytes: int = 5 * SIZE_BYTES) -> list[BatchSpan]:
    replica = ReplicaLog("n1", directory)
    return list(stride_over(replica, replica.seek(Offset(start)), size_bytes=size_bytes))


def offsets(found: Sequence[BatchSpan]) -> list[tuple[int, int]]:
    return [(one.offset, one.end_offset) for one in found]


def check(found: Sequence[BatchSpan], directory: Path, *, start: int = 0) -> None:
    """The same log as a walk over every header shows, with the headers of the first and last batch of each span."""
    replica = ReplicaLog("n1", directory)
    batches = {one.offset: one for one in replica.walk(replica.seek(Offset(start)))}
    at = min(batches)
    for one in found:
        assert one.offset == at
        inside = [each for each in batches.values() if one.offset <= each.offset < one.end_offset]
        assert (one.segment, one.position, one.first) == (inside[0].segment, inside[0].position, inside[0].header)
        assert (one.last_position, one.header) == (inside[-1].position, inside[-1].header)
        assert one.end_position == inside[-1].end_position
        at = one.end_offset
    assert at == max(one.end_offset for one in batches.values())


@pytest.mark.parametrize("start", [0, 1, 6, 11, 24, 30, 71, 72, 95])
@pytest.mark.parametrize("every", [1, 3, 11])
@pytest.mark.parametrize("length", [1, 3, 5, 12, 100])
def test_strides_are_the_log(length: int, every: int, start: int, log: Path) -> None:
    for segment in log.glob("*.log"):
        write_index(segment, entries(every))
    check(strode(log, start=start, size_bytes=length * SIZE_BYTES), log, start=start)


def test_of_a_segment_that_is_done_not_every_header_is_looked_at(log: Path) -> None:
    found = strode(log)
    assert offsets(found)[:9] == [(0, 6), (6, 12), (12, 18), (18, 24), (24, 30), (30, 36), (36, 42), (42, 48), (48, 54)]
    assert offsets(found)[12:] == [(72, 78), (78, 84), (84, 90), (90, 92), (92, 94), (94, 96)]
    assert offsets(strode(log, size_bytes=10**6))[:4] == [(0, 24), (24, 48), (48, 72), (72, 74)]


def test_zeros_behind_the_last_entry_of_the_newest_segment_are_no_entries(log: Path) -> None:
    """A node that lives takes space for log and index beforehand."""
    newest = max(log.glob("*.log"))
    newest.write_bytes(newest.read_bytes() + bytes(10_000))
    write_index(newest, entries(3), rest=bytes(8 * 100))
    found = strode(log)
    check(found, log)
    assert offsets(found)[12:15] == [(72, 78), (78, 84), (84, 90)]


def test_the_newest_segment_may_end_in_the_middle_of_a_batch(log: Path) -> None:
    newest = max(log.glob("*.log"))
    newest.write_bytes(newest.read_bytes()[:-5])
    assert offsets(strode(log))[-1] == (92, 94)


@pytest.mark.parametrize(
    "found",
    [
        [],
        [(1, 5)],
        [(0, SIZE_BYTES)],
        [(3, 2 * SIZE_BYTES), (9, 3 * SIZE_BYTES)],
        [(7, 4 * SIZE_BYTES + 1)],
        [(7, 3 * SIZE_BYTES), (0, 0), (0, 0)],
        [(13, 6 * SIZE_BYTES), (7, 3 * SIZE_BYTES)],
        [(7, 10**6)],
        [(7, -1)],
    ],
)
def test_an_index_that_is_wrong_costs_time_alone(found: Entries, log: Path) -> None:
    for segment in log.glob("*.log"):
        write_index(segment, found, rest=b"\0\0\0")
    for size_bytes in (1, 4 * SIZE_BYTES, 8 * SIZE_BYTES):
        check(strode(log, size_bytes=size_bytes), log)


def test_a_log_without_indexes_is_walked_over(log: Path) -> None:
    for index in log.glob("*.index"):
        index.unlink()
    assert offsets(strode(log)) == [(at, at + 2) for at in range(0, 96, 2)]


def swapped(data: bytes) -> bytes:
    """Batch 1 in the place of batch 0 and the other way round."""
    return data[SIZE_BYTES : 2 * SIZE_BYTES] + data[:SIZE_BYTES] + data[2 * SIZE_BYTES :]


@pytest.mark.parametrize(
    "harm",
    [
        swapped,
        lambda data: data[:-SIZE_BYTES],
        lambda data: data[:-3],
        lambda data: data + bytes(100),
        lambda data: data[: 3 * SIZE_BYTES] + b"!" * 30 + data[3 * SIZE_BYTES + 30 :],
        lambda data: data[:40] + data[40 + SIZE_BYTES :],
    ],
    ids=["order", "a batch less", "torn", "zeros", "a header", "shorter"],
)
def test_damage_where_strides_meet_is_told_as_a_walk_tells_it(harm: Callable[[bytes], bytes], log: Path) -> None:
    segment = min(log.glob("*.log"))
    segment.write_bytes(harm(segment.read_bytes()))
    with pytest.raises(CorruptionError):
        strode(log)


def test_a_segment_that_is_deleted_meanwhile_is_told(log: Path) -> None:
    replica = ReplicaLog("n1", log)
    found = stride_over(replica, replica.start(), size_bytes=5 * SIZE_BYTES)
    next(found)
    sorted(log.glob("*.log"))[1].unlink()
    with pytest.raises(StorageError):
        list(found)


@pytest.mark.parametrize(
    ("limit", "end_offset"),
    [
        (Limit(end_offset=Offset(33)), 34),
        (Limit(end_offset=Offset(30)), 30),
        (Limit(records_max=27), 26),
        (Limit(records_max=1), 2),
        (Limit(size_bytes_max=7 * SIZE_BYTES), 14),
        (Limit(size_bytes_max=1), 2),
        (Limit(records_max=90), 90),
        (Limit(), 96),
    ],
)
@pytest.mark.parametrize("split_batches", [1, 4, 100])
def test_a_limit_within_a_stride_holds(limit: Limit, end_offset: int, split_batches: int, log: Path) -> None:
    replica = ReplicaLog("n1", log)
    start = replica.start()
    found = plan_splits(
        "n1",
        start,
        stride_over(replica, start, size_bytes=5 * SIZE_BYTES),
        start_offset=Offset(0),
        limit=limit,
        size_bytes=split_batches * SIZE_BYTES,
    )
    assert found.end.offset == end_offset
    data = b"".join(part.data for split in found.splits for part in read_chunks(split))
    assert data == b"".join(BATCHES[: end_offset // 2])
    assert replica.resume(found.end) == found.end


def test_what_a_stride_passes_over_is_checked_by_who_reads_it(log: Path) -> None:
    segment = min(log.glob("*.log"))
    data = bytearray(segment.read_bytes())
    data[SIZE_BYTES + 7] += 2
    segment.write_bytes(data)
    replica = ReplicaLog("n1", log)
    start = replica.start()
    plan = plan_splits("n1", start, stride_over(replica, start), start_offset=Offset(0), limit=Limit())
    with pytest.raises(CorruptionError, match=f"at position {SIZE_BYTES}: expected offset 2, found offset"):
        list(read_chunks(plan.splits[0]))


def test_strides_are_finer_than_splits() -> None:
    assert strides.STRIDE_SIZE_BYTES < splits.SPLIT_SIZE_BYTES
