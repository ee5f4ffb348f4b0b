"""Walks over a log: damage or torn tail, positions found again, and logs that grow, roll, vanish or are truncated."""

import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import cramjam
import pytest

from pykraft.errors import CorruptionError, ProtocolError, StorageError, UsageError
from pykraft.protocol.batch import scan, seal_batch
from pykraft.protocol.compression import Compression
from pykraft.spark.data_source import segment_walk
from pykraft.spark.data_source import walk as module
from pykraft.spark.data_source.segment_walk import BatchSpan
from pykraft.spark.data_source.splits import Limit, plan_splits, read_chunks
from pykraft.spark.data_source.walk import SPLIT_SIZE_BYTES, STRIDE_SIZE_BYTES, Cursor, ReplicaLog, after, stride_over
from pykraft.types import Offset
from tests.spark.logs import EPOCH, batch, three_batches, write_segment

BATCHES = three_batches()
SIZE_BYTES = len(BATCHES[0])


def replica(directory: Path, named: Sequence[Path] | None = None) -> ReplicaLog:
    return ReplicaLog("n1", directory, named)


def walk(directory: Path, named: Sequence[Path] | None = None, *, tolerant: bool = False) -> list[BatchSpan]:
    """Everything from the log start on."""
    walked = replica(directory, named)
    return list(walked.walk(walked.start(), tolerant=tolerant))


def offsets(spans: Sequence[BatchSpan]) -> list[tuple[int, int]]:
    return [(one.offset, one.end_offset) for one in spans]


def read_all(directory: Path) -> None:
    """All batches, as a driver and its workers read them."""
    walked = replica(directory)
    start = walked.start()
    for split in plan_splits("n1", start, walked.walk(start), start_offset=start.offset, limit=Limit()).splits:
        for part in read_chunks(split):
            list(scan(part.data))


TAILS = {
    "a torn batch": BATCHES[2][:-1],
    "a torn header": BATCHES[2][:20],
    "less than a length": BATCHES[2][:9],
    "preallocated zeros": bytes(4096),
    "a few zeros": bytes(5),
}


def test_an_empty_log_is_nothing(tmp_path: Path) -> None:
    write_segment(tmp_path, b"")
    assert walk(tmp_path) == []


def test_a_directory_without_segments_has_no_start(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="no longer has any segments"):
        replica(tmp_path).start()
    with pytest.raises(StorageError):
        replica(tmp_path / "absent" / "p-0" / "file").start()


@pytest.mark.parametrize("tail", TAILS.values(), ids=TAILS)
def test_the_newest_segment_may_have_a_tail_and_an_older_one_may_not(tail: bytes, tmp_path: Path) -> None:
    segment = write_segment(tmp_path, BATCHES[0] + BATCHES[1] + tail)
    assert offsets(walk(tmp_path)) == [(0, 2), (2, 4)]
    write_segment(tmp_path, BATCHES[2], base_offset=4)
    with pytest.raises(CorruptionError) as caught:
        walk(tmp_path)
    assert (caught.value.path, caught.value.position) == (str(segment), 2 * SIZE_BYTES)


@pytest.mark.parametrize("index", [0, 1, 2], ids=["first", "middle", "last"])
def test_a_flipped_bit_of_what_no_crc_covers_is_damage_also_in_the_newest_segment(index: int, tmp_path: Path) -> None:
    """Base offset, length and magic; some only show when the CRC is compared over the wrong bytes."""
    for at in (*range(12), 16):
        for bit in range(8):
            damaged = [bytearray(each) for each in BATCHES]
            damaged[index][at] ^= 1 << bit
            write_segment(tmp_path, b"".join(damaged))
            with pytest.raises((CorruptionError, ProtocolError)):
                read_all(tmp_path)


def test_an_epoch_that_steps_back_is_damage(tmp_path: Path) -> None:
    write_segment(tmp_path, BATCHES[0] + batch([b"x"], base_offset=2, epoch=EPOCH - 1))
    with pytest.raises(CorruptionError, match=f"expected an epoch of at least {EPOCH}, found epoch 2"):
        walk(tmp_path)


def test_an_epoch_that_steps_back_between_segments_is_damage(tmp_path: Path) -> None:
    write_segment(tmp_path, BATCHES[0])
    write_segment(tmp_path, batch([b"x"], base_offset=2, epoch=EPOCH - 1), base_offset=2)
    with pytest.raises(CorruptionError, match=f"expected an epoch of at least {EPOCH}, found epoch 2"):
        walk(tmp_path)


def test_a_segment_that_is_missing_is_damage_and_one_that_was_not_asked_for_is_not(tmp_path: Path) -> None:
    parts = [write_segment(tmp_path, data, base_offset=2 * index) for index, data in enumerate(BATCHES)]
    asked = [parts[0], parts[2]]
    assert offsets(walk(tmp_path, asked)) == [(0, 2), (4, 6)]
    parts[1].unlink()
    with pytest.raises(CorruptionError, match="expected offset 2, found a segment that begins at offset 4"):
        walk(tmp_path, asked)


def test_an_older_segment_has_no_torn_tail_when_the_newest_is_not_asked_for(tmp_path: Path) -> None:
    older = write_segment(tmp_path, BATCHES[0] + BATCHES[1][:-1])
    write_segment(tmp_path, BATCHES[1], base_offset=2)
    with pytest.raises(CorruptionError):
        walk(tmp_path, [older])


def test_who_wants_to_go_on_is_told_of_damage_and_given_the_next_segments(tmp_path: Path) -> None:
    segment = write_segment(tmp_path, BATCHES[0] + b"!" * 80)
    write_segment(tmp_path, BATCHES[2], base_offset=4)
    first, damage, last = walk(tmp_path, tolerant=True)
    assert (first.damage, last.damage) == (None, None)
    assert (damage.segment, damage.position, damage.end_position) == (segment, SIZE_BYTES, SIZE_BYTES + 80)
    assert (damage.offset, damage.end_offset, damage.header) == (2, 4, None)
    assert damage.damage is not None
    assert str(segment) in damage.damage
    assert offsets([last]) == [(4, 6)]


@pytest.mark.parametrize("offset", range(7))
def test_the_batch_that_holds_an_offset_is_found(offset: int, tmp_path: Path) -> None:
    write_segment(tmp_path, BATCHES[0] + BATCHES[1])
    write_segment(tmp_path, BATCHES[2], base_offset=4)
    found = replica(tmp_path).seek(Offset(offset))
    assert found.offset == offset // 2 * 2
    assert offsets(list(replica(tmp_path).walk(found))) == [(at, at + 2) for at in range(found.offset, 6, 2)]


def test_the_offset_index_leads_to_a_batch_only_when_it_is_right(tmp_path: Path) -> None:
    segment = write_segment(tmp_path, b"".join(BATCHES))
    index = segment.with_suffix(".index")
    for entries in ([(3, SIZE_BYTES)], [(3, SIZE_BYTES), (0, 0), (0, 0)], [(3, 7)], [(5, SIZE_BYTES)], [(3, 10**6)]):
        index.write_bytes(b"".join(struct.pack(">ii", *entry) for entry in entries) + b"\0")
        assert replica(tmp_path).seek(Offset(4)).offset == 4
    assert replica(tmp_path)._near(Offset(4)).position == 0
    index.write_bytes(struct.pack(">ii", 3, SIZE_BYTES))
    assert replica(tmp_path)._near(Offset(4)).position == SIZE_BYTES


def test_an_offset_that_is_gone_is_refused_and_one_that_is_not_there_yet_is_the_end(tmp_path: Path) -> None:
    write_segment(tmp_path, BATCHES[2], base_offset=4)
    with pytest.raises(UsageError, match="offset 3 is no longer there, the log begins at 4"):
        replica(tmp_path).seek(Offset(3))
    assert replica(tmp_path).seek(Offset(99)).offset == 6


def test_the_end_of_a_log_whose_newest_segment_is_empty_is_found(tmp_path: Path) -> None:
    write_segment(tmp_path, BATCHES[0])
    write_segment(tmp_path, b"", base_offset=2)
    assert replica(tmp_path).seek(Offset(2)).offset == 2
    assert replica(tmp_path).seek(Offset(9)).offset == 2


def test_a_walk_goes_on_in_a_log_that_grew_and_rolled(tmp_path: Path) -> None:
    write_segment(tmp_path, BATCHES[0])
    (first,) = walk(tmp_path)
    place = after(first, replica(tmp_path).start())
    assert list(replica(tmp_path).walk(place)) == []
    write_segment(tmp_path, BATCHES[0] + BATCHES[1])
    write_segment(tmp_path, BATCHES[2], base_offset=4)
    assert offsets(list(replica(tmp_path).walk(place))) == [(2, 4), (4, 6)]


def test_a_place_in_a_segment_that_was_deleted_is_told(tmp_path: Path) -> None:
    segment = write_segment(tmp_path, BATCHES[0])
    write_segment(tmp_path, BATCHES[1], base_offset=2)
    start = replica(tmp_path).start()
    segment.unlink()
    with pytest.raises(StorageError, match="the node deleted it"):
        list(replica(tmp_path).walk(start))


@pytest.mark.parametrize("offset", [0, 2, 4, 6])
def test_a_place_is_found_again_by_the_batch_before_it(offset: int, tmp_path: Path) -> None:
    write_segment(tmp_path, BATCHES[0] + BATCHES[1])
    write_segment(tmp_path, BATCHES[2], base_offset=4)
    place = replica(tmp_path).start()
    for one in walk(tmp_path)[: offset // 2]:
        place = after(one, place)
    resumed = replica(tmp_path).resume(Cursor(offset=Offset(offset), epoch=place.epoch, crc=place.crc))
    assert offsets(list(replica(tmp_path).walk(resumed))) == [(at, at + 2) for at in range(offset, 6, 2)]


@pytest.mark.parametrize(
    "now",
    [
        [BATCHES[0]],
        [BATCHES[0], batch([b"other", b"b1"], base_offset=2)],
        [BATCHES[0], batch([b"a1", b"b1"], base_offset=2, epoch=EPOCH + 1)],
    ],
)
def test_a_log_that_was_cut_back_below_a_place_is_noticed(now: list[bytes], tmp_path: Path) -> None:
    write_segment(tmp_path, BATCHES[0] + BATCHES[1])
    first, second = walk(tmp_path)
    place = after(second, after(first, replica(tmp_path).start()))
    write_segment(tmp_path, b"".join(now))
    with pytest.raises(UsageError, match="the log was cut back below offset 4"):
        replica(tmp_path).resume(Cursor(offset=place.offset, epoch=place.epoch, crc=place.crc))


def test_a_place_that_a_log_begins_behind_is_refused(tmp_path: Path) -> None:
    write_segment(tmp_path, BATCHES[2], base_offset=4)
    with pytest.raises(UsageError, match="the log begins at 4"):
        replica(tmp_path).resume(Cursor(offset=Offset(2), crc=7))
    assert replica(tmp_path).resume(Cursor(offset=Offset(4), crc=7)).offset == 4


def test_a_batch_that_is_just_being_written_into_space_taken_beforehand_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = bytes(4096)
    whole = BATCHES[0] + BATCHES[1] + space
    waits: list[int] = []

    def go_on() -> None:
        waits.append(1)
        if len(waits) == 2:
            write_segment(tmp_path, whole)

    monkeypatch.setattr(segment_walk, "_let_it_write", go_on)
    for cut in range(62, SIZE_BYTES - 1):
        waits.clear()
        write_segment(tmp_path, BATCHES[0] + BATCHES[1][:cut] + bytes(SIZE_BYTES - cut) + space)
        assert offsets(walk(tmp_path)) == [(0, 2), (2, 4)]
        assert len(waits) == 2


def test_a_last_batch_before_such_space_that_stays_broken_is_damage(tmp_path: Path) -> None:
    damaged = bytearray(BATCHES[1])
    damaged[-3] ^= 1
    write_segment(tmp_path, BATCHES[0] + bytes(damaged) + bytes(4096))
    with pytest.raises(CorruptionError, match="expected a whole batch"):
        walk(tmp_path)


COUNT = 12
INDEXED_BATCHES = [batch([b"%02d" % i, b"%02d" % i], base_offset=2 * i, epoch=EPOCH + i // 5) for i in range(4 * COUNT)]
INDEXED_BYTES = len(INDEXED_BATCHES[0])
Entries = Sequence[tuple[int, int]]


def entries(every: int) -> Entries:
    """Last offset delta and position of each so many-th batch, as a node writes them."""
    return [(2 * at + 1, at * INDEXED_BYTES) for at in range(every, COUNT, every)]


def write_index(segment: Path, found: Entries, *, rest: bytes = b"") -> None:
    segment.with_suffix(".index").write_bytes(b"".join(struct.pack(">ii", *each) for each in found) + rest)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Three segments that are done, of twelve batches of two offsets each, and the newest, as long."""
    for number in range(4):
        own = INDEXED_BATCHES[number * COUNT : (number + 1) * COUNT]
        segment = write_segment(tmp_path, b"".join(own), base_offset=2 * COUNT * number)
        write_index(segment, entries(3))
    return tmp_path


def strode(directory: Path, *, start: int = 0, size_bytes: int = 5 * INDEXED_BYTES) -> list[BatchSpan]:
    replica = ReplicaLog("n1", directory)
    return list(stride_over(replica, replica.seek(Offset(start)), size_bytes=size_bytes))


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
    check(strode(log, start=start, size_bytes=length * INDEXED_BYTES), log, start=start)


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
        [(0, INDEXED_BYTES)],
        [(3, 2 * INDEXED_BYTES), (9, 3 * INDEXED_BYTES)],
        [(7, 4 * INDEXED_BYTES + 1)],
        [(7, 3 * INDEXED_BYTES), (0, 0), (0, 0)],
        [(13, 6 * INDEXED_BYTES), (7, 3 * INDEXED_BYTES)],
        [(7, 10**6)],
        [(7, -1)],
    ],
)
def test_an_index_that_is_wrong_costs_time_alone(found: Entries, log: Path) -> None:
    for segment in log.glob("*.log"):
        write_index(segment, found, rest=b"\0\0\0")
    for size_bytes in (1, 4 * INDEXED_BYTES, 8 * INDEXED_BYTES):
        check(strode(log, size_bytes=size_bytes), log)


def test_a_log_without_indexes_is_walked_over(log: Path) -> None:
    for index in log.glob("*.index"):
        index.unlink()
    assert offsets(strode(log)) == [(at, at + 2) for at in range(0, 96, 2)]


def swapped(data: bytes) -> bytes:
    """Batch 1 in the place of batch 0 and the other way round."""
    return data[INDEXED_BYTES : 2 * INDEXED_BYTES] + data[:INDEXED_BYTES] + data[2 * INDEXED_BYTES :]


@pytest.mark.parametrize(
    "harm",
    [
        swapped,
        lambda data: data[:-INDEXED_BYTES],
        lambda data: data[:-3],
        lambda data: data + bytes(100),
        lambda data: data[: 3 * INDEXED_BYTES] + b"!" * 30 + data[3 * INDEXED_BYTES + 30 :],
        lambda data: data[:40] + data[40 + INDEXED_BYTES :],
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
    found = stride_over(replica, replica.start(), size_bytes=5 * INDEXED_BYTES)
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
        (Limit(size_bytes_max=7 * INDEXED_BYTES), 14),
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
        stride_over(replica, start, size_bytes=5 * INDEXED_BYTES),
        start_offset=Offset(0),
        limit=limit,
        size_bytes=split_batches * INDEXED_BYTES,
    )
    assert found.end.offset == end_offset
    data = b"".join(part.data for split in found.splits for part in read_chunks(split))
    assert data == b"".join(INDEXED_BATCHES[: end_offset // 2])
    assert replica.resume(found.end) == found.end


def test_what_a_stride_passes_over_is_checked_by_who_reads_it(log: Path) -> None:
    segment = min(log.glob("*.log"))
    data = bytearray(segment.read_bytes())
    data[INDEXED_BYTES + 7] += 2
    segment.write_bytes(data)
    replica = ReplicaLog("n1", log)
    start = replica.start()
    plan = plan_splits("n1", start, stride_over(replica, start), start_offset=Offset(0), limit=Limit())
    with pytest.raises(CorruptionError, match=f"at position {INDEXED_BYTES}: expected offset 2, found offset"):
        list(read_chunks(plan.splits[0]))


@pytest.mark.parametrize("is_large", [False, True])
def test_strides_of_compressed_batches_are_shorter(
    is_large: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task takes as long for them as for more bytes; but a large log has tasks enough."""
    records = bytes(cramjam.zstd.compress(bytes(100)))
    place: Any = {"count": 1, "epoch": EPOCH, "timestamp_ms": 0, "attributes": Compression.ZSTD}
    # The first batch of a quorum's log is a leader's, and never compressed.
    plain = seal_batch(bytes(len(records)), base_offset=Offset(0), **(place | {"attributes": 0})).data
    batches = [plain, *(seal_batch(records, base_offset=Offset(at), **place).data for at in range(1, 24))]
    size_bytes = len(plain)
    first = write_segment(tmp_path, b"".join(batches))
    write_index(first, [(at, at * size_bytes) for at in range(1, 24)])
    write_segment(tmp_path, batch([b"x"], base_offset=24), base_offset=24)
    monkeypatch.setattr(module, "STRIDE_SIZE_BYTES", 4 * size_bytes)
    monkeypatch.setattr(module, "SPLIT_SIZE_BYTES", 12 * size_bytes - is_large)
    found = strode(tmp_path, size_bytes=12 * size_bytes)
    lengths = [(one.end_position - one.position) // size_bytes for one in found if one.segment == first]
    assert lengths == ([12, 12] if is_large else [6, 6, 6, 6])


def test_strides_are_finer_than_splits() -> None:
    assert STRIDE_SIZE_BYTES < SPLIT_SIZE_BYTES
