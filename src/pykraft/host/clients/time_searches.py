"""Searches of the committed log by time, for ListOffsets: the first record of at least a time, or one of the newest.

Control batches have times, too, and no client sees them. The time indexes count them, so they only say where no record
can be: a search for a time begins behind all batches that are older. One for the newest goes backward, piece by piece,
until nothing before can be newer. In a log whose times rise, both read one piece. Invariant: one search reads at a time
and stops when its client is gone, so that searches never take more than one turn before replicas.

Source: Kafka's ``UnifiedLog.fetchOffsetByTimestamp``; KIP-734 (the newest time).
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pykraft.errors import ErrorCode
from pykraft.host.fetch_read import FetchReads, ReadableLog, RecordBuffers
from pykraft.log.segment import first_that_may_have, piece_before
from pykraft.protocol.batch import BatchHeader, scan
from pykraft.protocol.records import Record, decode_records
from pykraft.protocol.schema import Body
from pykraft.types import Buffer, Epoch, Offset

NEWEST_TIME: Final = -3
START: Final = Offset(0)
PIECE_SIZE_BYTES: Final = 1024 * 1024
"""Bytes of the log that a search reads at a time."""
NOT_FOUND: Final[Body] = {"timestamp": -1, "offset": -1, "leader_epoch": -1}


@dataclass(slots=True, kw_only=True)
class _Search:
    """``timestamp`` is the least time, or `NEWEST_TIME`; the piece from ``offset`` to ``end`` is read now."""

    timestamp: int
    log_start: Offset
    offset: Offset
    end: Offset
    is_wanted: Callable[[], bool]
    then: Callable[[Body], None]
    before: Offset = START
    """For the newest time: where the piece began."""
    before_ms: int = 0
    """And what no batch before it is newer than."""
    best: tuple[int, Buffer, Epoch] | None = None
    """And the newest batch so far."""


class TimeSearches:
    """All searches of one log."""

    def __init__(self, reads: FetchReads, log: ReadableLog) -> None:
        self._reads = reads
        self._log = log
        self._waiting: deque[_Search] = deque()
        self._is_reading = False

    def find(
        self, timestamp: int, start: Offset, end: Offset, is_wanted: Callable[[], bool], then: Callable[[Body], None]
    ) -> None:
        """Pass the fields of an answer of ListOffsets to ``then``, now or later, or never when the client is gone.

        ``timestamp`` is the least time of the record, or `NEWEST_TIME`; [start, end) is the committed log.
        """
        self._waiting.append(
            _Search(timestamp=timestamp, log_start=start, offset=start, end=end, is_wanted=is_wanted, then=then)
        )
        self._begin()

    def _begin(self) -> None:
        while self._waiting and not self._is_reading:
            search = self._waiting.popleft()
            if not search.is_wanted():
                continue
            self._is_reading = True
            if search.timestamp == NEWEST_TIME:
                self._go_back(search, search.end)
            else:
                search.offset = max(search.offset, first_that_may_have(self._log.views(), search.timestamp))
                self._read(search)

    def _end(self, search: _Search, answer: Body) -> None:
        self._is_reading = False
        search.then(answer)
        self._begin()

    def _read(self, search: _Search) -> None:
        if not search.is_wanted():
            self._is_reading = False
            self._begin()
        elif search.offset < search.end:
            self._reads.read(search.offset, search.end, PIECE_SIZE_BYTES, lambda found: self._take(search, found))
        elif search.timestamp == NEWEST_TIME:
            self._piece_is_over(search)
        else:
            self._end(search, NOT_FOUND)

    def _take(self, search: _Search, found: RecordBuffers | None) -> None:
        if not found:
            # The log was truncated during the read, or is damaged there.
            self._end(search, {"error_code": ErrorCode.NOT_LEADER_OR_FOLLOWER})
            return
        before = search.offset
        for buffer in found:
            view = memoryview(buffer)
            for position, header in scan(buffer, verify_crc=False):
                search.offset = header.end_offset
                if header.is_control:
                    continue
                record = self._look_at(search, header, view[position : position + header.size_bytes])
                if record is not None:
                    self._end(search, _place_of(record, header.epoch))
                    return
        if search.offset == before:
            # The next batch reaches beyond the end.
            search.offset = search.end
        self._read(search)

    @staticmethod
    def _look_at(search: _Search, header: BatchHeader, data: memoryview) -> Record | None:
        """The record in this batch that ends the search."""
        if search.timestamp == NEWEST_TIME:
            if search.best is None or header.max_timestamp > search.best[0]:
                search.best = (header.max_timestamp, bytes(data), header.epoch)
            return None
        if header.max_timestamp < search.timestamp:
            return None
        # In an old log no record may have the time that the header says.
        return next((each for each in decode_records(data) if each.timestamp_ms >= search.timestamp), None)

    def _go_back(self, search: _Search, end: Offset) -> None:
        search.before, search.before_ms = piece_before(self._log.views(), end, PIECE_SIZE_BYTES)
        search.offset, search.end = max(search.before, search.log_start), end
        self._read(search)

    def _piece_is_over(self, search: _Search) -> None:
        best = search.best
        if search.before > search.log_start and (best is None or search.before_ms > best[0]):
            self._go_back(search, search.before)
        elif best is None:
            self._end(search, NOT_FOUND)
        else:
            # The first of them, since `max` returns the first.
            self._end(search, _place_of(max(decode_records(best[1]), key=lambda each: each.timestamp_ms), best[2]))


def _place_of(record: Record, epoch: Epoch) -> Body:
    return {"timestamp": record.timestamp_ms, "offset": record.offset, "leader_epoch": epoch}
