"""A search by time finds what a look at every record finds, and reads little of the log."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pykraft.host.clients import time_searches
from pykraft.host.clients.time_searches import NEWEST_TIME, NOT_FOUND, TimeSearches
from pykraft.host.fetch_read import FetchReads, RecentBatches
from pykraft.protocol.records import encode_batch, encode_control_batch
from pykraft.types import Epoch, KRaftVersion, Offset
from tests.host.fakes import FakePorts
from tests.log.logs import SMALL, disk, open_log


class Searched:
    """A log in files that searches read, and its records as (time, offset)."""

    def __init__(self) -> None:
        self.log, _ = open_log(disk(), replace(SMALL, segment_size_bytes=1_024))
        self.records: list[tuple[int, int]] = []
        self.ports = FakePorts()
        self.read_bytes = 0

    def append(self, time: int, *, count: int = 1, is_control: bool = False) -> None:
        at = self.log.end_offset
        if is_control:
            one = encode_control_batch([KRaftVersion(1)], base_offset=at, epoch=Epoch(1), timestamp_ms=time)
        else:
            one = encode_batch([bytes(20)] * count, base_offset=at, epoch=Epoch(1), timestamp_ms=time)
            self.records += [(time, at + number) for number in range(count)]
        self.log.append([one])
        self.log.flush()

    def find(self, timestamp: int, *, start: int = 0, end: int | None = None) -> Any:
        reads = FetchReads(self.ports, self.log, RecentBatches(end_offset=self.log.end_offset), lambda *_: None)
        found: list[Any] = []
        last = Offset(self.log.end_offset if end is None else end)
        TimeSearches(reads, self.log).find(timestamp, Offset(start), last, lambda: True, found.append)
        while self.ports.reads:
            read, then = self.ports.reads.pop(0)
            data = read()
            self.read_bytes += len(data)
            then(data)
        [told] = found
        return told if told is NOT_FOUND else (told["timestamp"], told["offset"])


@given(
    batches=st.lists(st.tuples(st.integers(0, 12), st.integers(1, 3), st.booleans()), min_size=1, max_size=60),
    timestamp=st.integers(0, 13),
    cut=st.integers(0, 200),
    piece=st.sampled_from([1, 150, 500, 10_000]),
)
@example(  # the time index names the control batch of time 7, and so hides the record of time 5
    batches=[(1, 1, True), (5, 1, False), (3, 1, True), (7, 1, True), (1, 1, False)], timestamp=4, cut=200, piece=1
)
def test_a_search_finds_what_a_look_at_every_record_finds(
    batches: list[tuple[int, int, bool]], timestamp: int, cut: int, piece: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time_searches, "PIECE_SIZE_BYTES", piece)
        searched = Searched()
        for at, (time, count, is_control) in enumerate(batches):
            searched.append(time, count=count, is_control=is_control)
            if at == len(batches) // 2 and cut < searched.log.end_offset:
                searched.log.truncate_to(Offset(cut))
                searched.records = [each for each in searched.records if each[1] < searched.log.end_offset]
        ends = [searched.log.end_offset, Offset(0)]
        # Any batch may be the last committed one.
        ends += [view.end_offset for view in searched.log.views()]
        for end in ends:
            committed = [each for each in searched.records if each[1] < end]
            told = searched.find(timestamp, end=end)
            assert told == next((each for each in committed if each[0] >= timestamp), NOT_FOUND)
            told = searched.find(NEWEST_TIME, end=end)
            newest = max((time for time, _ in committed), default=None)
            assert told is NOT_FOUND if newest is None else (told in committed and told[0] == newest)


def test_a_search_reads_one_piece_of_a_log_whose_times_rise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_searches, "PIECE_SIZE_BYTES", 400)
    searched = Searched()
    for time in range(1_000):
        searched.append(time)
        searched.append(time, is_control=True)
    for timestamp in (0, 1, 500, 998, NEWEST_TIME):
        searched.read_bytes = 0
        searched.find(timestamp)
        assert 0 < searched.read_bytes <= 1_000, timestamp
    searched.read_bytes = 0
    assert searched.find(5_000) is NOT_FOUND
    assert searched.read_bytes == 0


def test_one_search_reads_at_a_time_and_none_for_a_client_that_is_gone() -> None:
    searched, gone = Searched(), set[int]()
    for time in range(20):
        searched.append(time)
    reads = FetchReads(searched.ports, searched.log, RecentBatches(end_offset=Offset(20)), lambda *_: None)
    searches, found = TimeSearches(reads, searched.log), list[int]()
    for number in range(4):
        searches.find(
            number,
            Offset(0),
            Offset(20),
            lambda number=number: number not in gone,  # type: ignore[misc]
            lambda told: found.append(told["offset"]),
        )
    gone |= {0, 2}
    counts = []
    while searched.ports.reads:
        counts.append(len(searched.ports.reads))
        read, then = searched.ports.reads.pop(0)
        then(read())
    assert found == [0, 1, 3]
    assert counts == [1, 1, 1]


def test_a_search_ends_when_its_client_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_searches, "PIECE_SIZE_BYTES", 1)
    searched, wanted, found = Searched(), [True], list[Any]()
    for time in (9, 1, 1, 1):
        searched.append(time)
    reads = FetchReads(searched.ports, searched.log, RecentBatches(end_offset=Offset(4)), lambda *_: None)
    searches = TimeSearches(reads, searched.log)
    searches.find(NEWEST_TIME, Offset(0), Offset(4), lambda: wanted[0], found.append)
    wanted[0] = False
    [(read, then)] = searched.ports.reads
    then(read())
    assert len(searched.ports.reads) == 1
    assert found == []
    searches.find(NEWEST_TIME, Offset(0), Offset(4), lambda: True, found.append)
    assert len(searched.ports.reads) == 2, "the next one has its turn"
