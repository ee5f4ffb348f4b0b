"""ListOffsets and OffsetForLeaderEpoch: where the log begins and ends, where a time begins, where an epoch ends.

The first record of a time is searched from the log start, one bounded piece of the log after the other, by the headers
of its batches; only the batch that holds it is decoded. Invariant: no offset above the high watermark is told as the
end, except where an epoch ends.

Source: Kafka's ``UnifiedLog.fetchOffsetByTimestamp``, ``ReplicaManager.lastOffsetForLeaderEpoch``; KIP-734, KIP-405.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from pykraft.core.log_view import LogView
from pykraft.core.status import Status
from pykraft.errors import ErrorCode, ProtocolError
from pykraft.host.clients.topics import ClientTopics, committed_end
from pykraft.host.fetch_read import FetchReads, RecordBuffers
from pykraft.protocol.batch import scan
from pykraft.protocol.records import Record, decode_records
from pykraft.protocol.schema import Body
from pykraft.types import Buffer, Epoch, Offset

LATEST: Final = -1
EARLIEST: Final = -2
NEWEST_TIME: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6
FIRST_VERSIONS: Final = {
    LATEST: 1,
    EARLIEST: 1,
    NEWEST_TIME: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
"""The version from which on a request may ask for each of these; any other negative time asks for nothing."""
PIECE_SIZE_BYTES_MAX: Final = 1024 * 1024
"""Bytes of the log that a search reads at a time."""
NOT_FOUND: Final[Body] = {"timestamp": -1, "offset": -1, "leader_epoch": -1}


@dataclass(slots=True, kw_only=True)
class _Search:
    """One search; ``timestamp`` is the least time, or `NEWEST_TIME`; ``best`` the newest batch so far."""

    timestamp: int
    end_offset: Offset
    is_wanted: Callable[[], bool]
    then: Callable[[Body], None]
    best: tuple[int, Buffer, Epoch] | None = None


class OffsetRequests:
    """Answers about offsets, from the core's status and the log."""

    def __init__(self, reads: FetchReads, view: LogView, topics: ClientTopics) -> None:
        self._reads = reads
        self._view = view
        self._topics = topics

    def list_offsets(
        self, body: Body, version: int, is_wanted: Callable[[], bool], answer: Callable[[Body], None]
    ) -> None:
        """Answer ListOffsets, perhaps after a search."""
        topics: list[Any] = body["topics"]
        rows = [{"name": topic["name"], "partitions": [None] * len(topic["partitions"])} for topic in topics]
        asked = [
            (row, at, part)
            for row, topic in zip(rows, topics, strict=True)
            for at, part in enumerate(topic["partitions"])
        ]
        counts = Counter((row["name"], part["partition_index"]) for row, _, part in asked)
        unanswered = len(asked)

        def found(row: Body, at: int, part: Body, told: Body) -> None:
            nonlocal unanswered
            row["partitions"][at] = {"partition_index": part["partition_index"], "error_code": 0, **told}
            unanswered -= 1
            if not unanswered:
                answer({"topics": rows})

        if not asked:
            answer({"topics": rows})
        for row, at, part in asked:
            then = partial(found, row, at, part)
            # Kafka's answer, and so a request costs at most one search for each name of the topic.
            if counts[row["name"], part["partition_index"]] > 1:
                then({"error_code": ErrorCode.INVALID_REQUEST})
            elif part["timestamp"] < 0 and version < FIRST_VERSIONS.get(part["timestamp"], version + 1):
                then({"error_code": ErrorCode.UNSUPPORTED_VERSION})
            else:
                self._list_one(row["name"], part, is_wanted, then)

    def ends_of_epochs(self, body: Body) -> Body:
        """Answer OffsetForLeaderEpoch."""
        return {
            "topics": [
                {
                    "topic": topic["topic"],
                    "partitions": [self._end_of_epoch(topic["topic"], part) for part in topic["partitions"]],
                }
                for topic in body["topics"]
            ]
        }

    def _end_of_epoch(self, name: str, part: Body) -> Body:
        told = {"partition": part["partition"], "error_code": ErrorCode.NONE}
        try:
            self._topics.check(name, part["partition"], epoch=part["current_leader_epoch"])
        except ProtocolError as error:
            return {**told, "error_code": error.code}
        asked = Epoch(part["leader_epoch"])
        if not 0 <= asked <= self._view.last_epoch:
            return told
        end = self._view.end_of_epoch(asked)
        return {**told, "leader_epoch": end.epoch, "end_offset": end.offset}

    def _list_one(self, name: str, part: Body, is_wanted: Callable[[], bool], then: Callable[[Body], None]) -> None:
        try:
            status = self._topics.check(name, part["partition_index"], epoch=part["current_leader_epoch"])
        except ProtocolError as error:
            then({"error_code": error.code})
            return
        timestamp: int = part["timestamp"]
        if timestamp == LATEST and status.high_watermark is None:
            # Consumers may have seen more than this leader knows to be committed: an end below that would be wrong.
            then({"error_code": ErrorCode.OFFSET_NOT_AVAILABLE})
        elif timestamp == LATEST:
            then({"offset": committed_end(status), "leader_epoch": status.epoch})
        elif timestamp in (EARLIEST, EARLIEST_LOCAL):
            then({"offset": status.log_start_offset, "leader_epoch": self._epoch_at(status)})
        elif timestamp >= 0 or timestamp == NEWEST_TIME:
            search = _Search(timestamp=timestamp, end_offset=committed_end(status), is_wanted=is_wanted, then=then)
            self._read(search, status.log_start_offset)
        else:
            # There is no remote storage, and nothing waits for its upload.
            then(NOT_FOUND)

    def _epoch_at(self, status: Status) -> Epoch:
        epochs = self._view.epochs
        return epochs[0].epoch if epochs else status.epoch

    def _read(self, search: _Search, offset: Offset) -> None:
        if offset >= search.end_offset:
            self._finish(search)
            return
        self._reads.read(
            offset, search.end_offset, PIECE_SIZE_BYTES_MAX, lambda found: self._look(search, found), search.is_wanted
        )

    def _look(self, search: _Search, found: RecordBuffers | None) -> None:
        """Look through one piece, then read the next one."""
        if not found:
            search.then({"error_code": ErrorCode.NOT_LEADER_OR_FOLLOWER})
            return
        next_offset = Offset(0)
        for buffer in found:
            view = memoryview(buffer)
            for position, header in scan(buffer, verify_crc=False):
                next_offset = header.end_offset
                if header.is_control:
                    continue
                data = view[position : position + header.size_bytes]
                if search.timestamp == NEWEST_TIME:
                    if search.best is None or header.max_timestamp > search.best[0]:
                        search.best = (header.max_timestamp, bytes(data), header.epoch)
                elif header.max_timestamp >= search.timestamp:
                    search.best = (search.timestamp, data, header.epoch)
                    self._finish(search)
                    return
        self._read(search, next_offset)

    def _finish(self, search: _Search) -> None:
        if search.best is None:
            search.then(NOT_FOUND)
            return
        least_ms, data, epoch = search.best
        record = _first_since(least_ms, data)
        search.then(
            NOT_FOUND
            if record is None
            else {"timestamp": record.timestamp_ms, "offset": record.offset, "leader_epoch": epoch}
        )


def _first_since(least_ms: int, data: Buffer) -> Record | None:
    """The first record of a batch that is not older; None when no time in it is what its header says."""
    return next((each for each in decode_records(data) if each.timestamp_ms >= least_ms), None)
