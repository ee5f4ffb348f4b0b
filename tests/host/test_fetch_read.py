"""Records for Fetch answers: from memory at once, from files later, and never what a truncation removed.

Source: Kafka's ``KafkaRaftLog.read`` (isolation UNCOMMITTED); the generation is ours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pykraft.errors import CorruptionError, UsageError
from pykraft.host.fetch_read import READS_MAX, FetchReads, cut
from pykraft.host.recent_batches import RecentBatches
from pykraft.types import Buffer, Offset
from tests.host.fakes import FakeLog, FakePorts, batch, joined, offsets_of

ALL = 2**20


class Reader:
    """Reads of a log whose first batches are in files and whose last are in memory, and what came of them."""

    def __init__(self, *, in_files: int, in_memory: int) -> None:
        self.ports = FakePorts()
        self.log = FakeLog([batch(offset) for offset in range(in_files)])
        self.recent = RecentBatches(end_offset=Offset(in_files))
        self.recent.append([batch(offset) for offset in range(in_files, in_files + in_memory)])
        self.suspected: list[Offset] = []
        self.reads = FetchReads(self.ports, self.log, self.recent, self._suspect)
        self.got: list[Sequence[Buffer] | None] = []

    def _suspect(self, offset: Offset, retry: Callable[[], None]) -> None:
        self.suspected.append(offset)
        retry()

    def read(self, offset: int, end_offset: int, size_bytes_max: int = ALL) -> None:
        self.reads.read(Offset(offset), Offset(end_offset), size_bytes_max, self.got.append)

    @property
    def offsets(self) -> list[list[int] | None]:
        return [offsets_of(records) for records in self.got]


def test_nothing_asked_for_is_nothing_at_once() -> None:
    reader = Reader(in_files=3, in_memory=0)
    reader.read(3, 3)
    assert reader.got == [()]


def test_recent_batches_come_at_once_as_the_same_bytes() -> None:
    reader = Reader(in_files=2, in_memory=3)
    reader.read(3, 5)
    assert reader.offsets == [[3, 4]]
    assert reader.got[0] is not None
    kept = reader.recent.take(Offset(3), Offset(5), ALL)
    assert all(part is data for part, (_, data) in zip(reader.got[0], kept, strict=True))
    assert reader.ports.reads == []


def test_older_batches_come_from_the_files_up_to_where_memory_begins() -> None:
    reader = Reader(in_files=3, in_memory=2)
    reader.log.batches += [batch(3, epoch=9), batch(4, epoch=9)]
    reader.read(1, 5)
    assert reader.got == []
    reader.ports.finish_read()
    assert reader.offsets == [[1, 2]]


def test_a_read_under_way_is_stale_after_a_truncation_even_of_other_records() -> None:
    reader = Reader(in_files=5, in_memory=0)
    reader.read(1, 5)
    reader.recent.truncate_to(Offset(4))
    reader.reads.truncated()
    reader.ports.finish_read()
    assert reader.got == [None]
    reader.read(1, 4)
    reader.ports.finish_read()
    assert reader.offsets == [None, [1, 2, 3]]


def test_a_read_below_which_the_log_was_cut_is_stale_and_no_error() -> None:
    reader = Reader(in_files=5, in_memory=0)

    def refuse(offset: Offset, size_bytes_max: int) -> Buffer:
        raise UsageError(f"{offset} is not in this log, nor are {size_bytes_max} bytes")

    reader.read(4, 5)
    reader.recent.truncate_to(Offset(2))
    reader.reads.truncated()
    reader.log.read = refuse  # type: ignore[method-assign]
    reader.ports.finish_read()
    assert reader.got == [None]


def test_damage_is_handed_to_nobody_and_looked_into() -> None:
    reader = Reader(in_files=5, in_memory=0)

    def refuse(offset: Offset, size_bytes_max: int) -> Buffer:
        raise CorruptionError("a file", position=int(offset), expected="a sound batch", found=f"{size_bytes_max} bytes")

    reader.log.read = refuse  # type: ignore[method-assign]
    reader.read(4, 5)
    reader.ports.finish_read()
    assert (reader.got, reader.suspected) == ([None], [4])
    reader.read(3, 5)
    reader.reads.truncated()
    reader.ports.finish_read()
    assert (reader.got, reader.suspected) == ([None, None], [4])


def test_few_reads_are_under_way_at_one_time_and_the_others_follow_in_order() -> None:
    reader = Reader(in_files=20, in_memory=0)
    for offset in range(10):
        reader.read(offset, 20, 1)
    assert len(reader.ports.reads) == READS_MAX
    while reader.ports.reads:
        reader.ports.finish_read()
        assert len(reader.ports.reads) <= READS_MAX
    assert reader.offsets == [[offset] for offset in range(10)]


def test_a_read_that_nobody_wants_any_more_is_left_out() -> None:
    reader = Reader(in_files=20, in_memory=0)
    wanted = set(range(8))
    for offset in range(8):
        reader.reads.read(Offset(offset), Offset(20), 1, reader.got.append, lambda offset=offset: offset in wanted)  # type: ignore[misc]
    wanted -= {0, 4, 5, 7}
    while reader.ports.reads:
        reader.ports.finish_read()
    assert reader.offsets == [[0], [1], [2], [3], [6]], "the first four were under way"


def test_cut_keeps_whole_batches_and_does_not_copy() -> None:
    batches = [batch(0), batch(1), batch(2)]
    data = joined(batches)
    assert cut(data, Offset(3)) is data
    part = cut(data, Offset(2))
    assert bytes(part) == joined(batches[:2])
    assert isinstance(part, memoryview)
    assert part.obj is data
    assert len(cut(data, Offset(0))) == 0


def test_the_batch_that_holds_an_offset_is_found_in_memory_and_in_the_files() -> None:
    reader = Reader(in_files=0, in_memory=0)
    reader.log.batches = [batch(0, b"a", b"b", b"c")]
    reader.recent = RecentBatches(end_offset=Offset(3))
    reader.recent.append([batch(3, b"d", b"e")])
    reader.reads = FetchReads(reader.ports, reader.log, reader.recent, reader._suspect)
    found: list[Offset | None] = []
    reader.reads.find_batch(Offset(4), found.append)
    assert found == [3]
    reader.reads.find_batch(Offset(2), found.append)
    reader.ports.finish_read()
    assert found == [3, 0]
    reader.reads.find_batch(Offset(1), found.append)
    reader.reads.truncated()
    reader.ports.finish_read()
    assert found == [3, 0, None]
