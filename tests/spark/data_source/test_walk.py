"""Walks over a log: damage or torn tail, positions found again, and logs that grow, roll, vanish or are truncated."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import pytest

from pykraft.errors import CorruptionError, ProtocolError, StorageError, UsageError
from pykraft.protocol.batch import scan
from pykraft.spark.data_source import segment_walk
from pykraft.spark.data_source.segment_walk import BatchSpan
from pykraft.spark.data_source.splits import Limit, plan_splits, read_chunks
from pykraft.spark.data_source.walk import Cursor, ReplicaLog, after
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
