"""Fetch for consumers: committed records, or a wait until there are some.

The leader answers from its log up to the high watermark. There are no fetch sessions: every answer has session id 0, so
a client sends its whole request each time. A Fetch waits at most as long as it asks for, and at most WAIT_MS_MAX, until
there are as many bytes as it asks for; an error in one of its partitions answers it at once. At most FETCHES_MAX wait:
one more answers the oldest. Invariant: no record above the high watermark is ever sent.

A Fetch that waits costs a step nothing. All wait for the same log, so bytes are counted once for all as they are
committed, and each Fetch is queued at the count at which it may have enough. All are looked at when something else
changed that can answer them: the leader, its epoch, the log start.

Consumers get no control batches, though Kafka's would skip them. Librdkafka (2.16) commits the offset behind a control
batch when it is closed, also if its program has not had the records before that; kafka-go (0.4.51) hands their records
to its program. So an answer has gaps, as those of a compacted topic. Who has read all records stays before the control
batches that follow, and nobody reads these in vain, however many there are.

Thousands may be due at the same moment, and want megabytes each. They are answered in the order in which they became
due, some in each step, so that replication goes on in between.

Source: Kafka's ``ReplicaManager.fetchMessages`` and ``DelayedFetch``; KIP-227 (sessions), KIP-320 (epochs).
"""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Final

from pykraft.core.status import Status
from pykraft.errors import ErrorCode, ProtocolError
from pykraft.host.clients.topics import ClientTopics, committed_end
from pykraft.host.fetch_read import FetchReads, HeaderAndBytes, RecordBuffers
from pykraft.host.ports import AT_ONCE_MS, Ports
from pykraft.protocol.batch import without_control
from pykraft.protocol.schema import Body
from pykraft.types import Offset

FETCHES_MAX: Final = 4_000
"""Fetches of consumers that may wait at one time."""
WAIT_MS_MAX: Final = 30_000
"""No Fetch waits longer, whatever it asks for."""
SIZE_BYTES_MAX: Final = 8 * 1024 * 1024
"""Most bytes of records in one answer; one whole batch always fits."""
ANSWERS_PER_STEP_MAX: Final = 64
ANSWERED_BYTES_PER_STEP_MAX: Final = 4 * 1024 * 1024
"""No further Fetch that waited is answered in a step in which answers had so many bytes of records."""


@dataclass(slots=True, kw_only=True, eq=False)
class _Asked:
    """One partition of a request; ``name`` is None for an unknown topic id, ``topic`` how the answer names it.

    The batches up to ``counted_end``, which have ``counted_bytes``, are counted for the least size of the answer.
    """

    name: str | None
    topic: Body
    partition: Body
    counted_end: Offset
    counted_bytes: int = 0


@dataclass(slots=True, kw_only=True, eq=False)
class _Fetch:
    """One request; an answer before the time is over has at least ``size_bytes_min`` of records, or an error."""

    asked: tuple[_Asked, ...]
    size_bytes_max: int
    size_bytes_min: int
    listener: str
    is_wanted: Callable[[], bool]
    answer: Callable[[Body], None]
    wait_ms: int
    is_over: bool = False
    """Its time is over: it is answered with what there is."""


STALE_MAX: Final = 1_000
"""Entries of Fetches that wait no more which a queue may hold, beside as many as there are others."""


class _Queue:
    """Fetches by a number: when, or at how many bytes, each is due. One that waits no more leaves at any time."""

    def __init__(self, waiting: Collection[_Fetch]) -> None:
        self._waiting = waiting
        self._entries: list[tuple[int, int, _Fetch]] = []
        self._pushed = 0

    def push(self, due: int, fetch: _Fetch) -> None:
        if len(self._entries) > 2 * len(self._waiting) + STALE_MAX:
            self._entries = [entry for entry in self._entries if entry[2] in self._waiting]
            heapify(self._entries)
        self._pushed += 1
        heappush(self._entries, (due, self._pushed, fetch))

    def clear(self) -> None:
        self._entries.clear()

    def pop_due(self, now: int) -> Iterator[_Fetch]:
        while (due := self.next_due) is not None and due <= now:
            yield heappop(self._entries)[2]

    @property
    def next_due(self) -> int | None:
        while self._entries and self._entries[0][2] not in self._waiting:
            heappop(self._entries)
        return self._entries[0][0] if self._entries else None


CONTROL_RUNS_MAX: Final = 1_000


class ControlRuns:
    """Where control batches follow each other, newest last; those in which nothing can end any more are forgotten."""

    def __init__(self) -> None:
        self._runs: deque[tuple[Offset, Offset]] = deque(maxlen=CONTROL_RUNS_MAX)

    def appended(self, batches: Sequence[HeaderAndBytes]) -> None:
        for header, _ in batches:
            if header.is_control:
                is_next = bool(self._runs) and self._runs[-1][1] == header.base_offset
                start = self._runs.pop()[0] if is_next else header.base_offset
                self._runs.append((start, header.end_offset))

    def truncated(self, end_offset: Offset) -> None:
        while self._runs and self._runs[-1][1] > end_offset:
            start, _ = self._runs.pop()
            if start < end_offset:
                self._runs.append((start, end_offset))

    def begin_anew(self) -> None:
        self._runs.clear()

    def records_end(self, end_offset: Offset) -> Offset:
        """The end of the last records below this committed end; it is not behind an earlier one by more than a run."""
        while self._runs and self._runs[0][1] < end_offset:
            self._runs.popleft()
        if self._runs and self._runs[0][0] < end_offset:
            return self._runs[0][0]
        return end_offset


class ConsumerFetches:
    """All Fetches of consumers, and those that wait."""

    def __init__(self, ports: Ports, reads: FetchReads, topics: ClientTopics) -> None:
        self._ports = ports
        self._reads = reads
        self._topics = topics
        self.control_runs = ControlRuns()
        """Of the log; its owner says what happens to that."""
        self._waiting: dict[_Fetch, None] = {}
        self._new: list[_Fetch] = []
        """Those without a deadline: `poll` sets it, since it knows the time."""
        self._by_deadline = _Queue(self._waiting)
        self._by_bytes = _Queue(self._waiting)
        self._due: deque[_Fetch] = deque()
        """Those to look at, or to answer; some do not wait any more."""
        self._counted_end = Offset(0)
        self._counted_bytes = 0
        """Bytes of the batches up to there, since this began; only differences mean something."""
        self._answering_all: tuple[object, ...] = ()
        self._answered_bytes = 0

    def handle(
        self, body: Body, version: int, listener: str, is_wanted: Callable[[], bool], answer: Callable[[Body], None]
    ) -> Callable[[], None] | None:
        """Answer now, or let the Fetch wait: then call what this returns if nobody waits for the answer any more."""
        if body["session_id"]:
            answer({"error_code": ErrorCode.FETCH_SESSION_ID_NOT_FOUND})
            return None
        asked = tuple(
            self._asked(topic, partition, version) for topic in body["topics"] for partition in topic["partitions"]
        )
        if not asked:
            answer({})
            return None
        is_of_replica = body["replica_id"] >= 0 or body["replica_state"]["replica_id"] >= 0
        size_bytes_max = max(0, min(body["max_bytes"], SIZE_BYTES_MAX))
        fetch = _Fetch(
            asked=asked,
            size_bytes_max=size_bytes_max,
            size_bytes_min=min(body["min_bytes"], size_bytes_max),
            listener=listener,
            is_wanted=is_wanted,
            answer=answer,
            wait_ms=max(0, min(body["max_wait_ms"], WAIT_MS_MAX)),
        )
        if is_of_replica:
            # As Kafka's brokers answer a replica that is not assigned: what it acknowledges here counts for nobody.
            self._answer(fetch, [ErrorCode.NOT_LEADER_OR_FOLLOWER] * len(asked), [()] * len(asked))
            return None
        if self._serve(fetch):
            return None
        if len(self._waiting) >= FETCHES_MAX:
            self._end(next(iter(self._waiting)))
        if not self._waiting:
            self._counted_end = self._records_end(self._topics.status())
        self._waiting[fetch] = None
        self._new.append(fetch)
        self._await_bytes(fetch)
        self._ports.wake_at(AT_ONCE_MS)
        return lambda: self._waiting.pop(fetch, None)

    def answer_ready(self) -> None:
        """Answer what can be answered: there are new records, or this node leads no more."""
        if not self._waiting:
            return
        status = self._topics.status()
        key = (status.role, status.epoch, status.leader_id, status.log_start_offset)
        end = self._records_end(status)
        size_bytes = self._reads.recent_size_bytes(self._counted_end, end) if end > self._counted_end else 0
        self._counted_end, self._counted_bytes = end, self._counted_bytes + (size_bytes or 0)
        if key != self._answering_all or size_bytes is None:
            self._answering_all = key
            self._by_bytes.clear()
            self._due = deque(self._waiting)
        else:
            self._due.extend(self._by_bytes.pop_due(self._counted_bytes))
        self._answer_due()

    def poll(self, mono_ms: int) -> None:
        new, self._new = self._new, []
        for fetch in new:
            if fetch in self._waiting:
                self._by_deadline.push(mono_ms + fetch.wait_ms, fetch)
        for fetch in self._by_deadline.pop_due(mono_ms):
            fetch.is_over = True
            self._due.append(fetch)
        self._answer_due()

    @property
    def next_deadline_ms(self) -> int | None:
        """When `poll` has something to do (mono ms)."""
        return AT_ONCE_MS if self._new or self._due else self._by_deadline.next_due

    def _answer_due(self) -> None:
        enough_bytes = self._answered_bytes + ANSWERED_BYTES_PER_STEP_MAX
        left = ANSWERS_PER_STEP_MAX
        while self._due and left and self._answered_bytes < enough_bytes:
            fetch = self._due.popleft()
            if fetch not in self._waiting:
                continue
            left -= 1
            if self._serve(fetch, is_last=fetch.is_over):
                self._waiting.pop(fetch, None)
            else:
                self._await_bytes(fetch)

    def _await_bytes(self, fetch: _Fetch) -> None:
        """Look again when it may have enough: each of its partitions counts the same bytes, at most all."""
        missing_bytes = fetch.size_bytes_min - sum(asked.counted_bytes for asked in fetch.asked)
        due_bytes = self._counted_bytes + max(1, -(-missing_bytes // len(fetch.asked)))
        self._by_bytes.push(due_bytes, fetch)

    def _end(self, fetch: _Fetch) -> None:
        del self._waiting[fetch]
        self._serve(fetch, is_last=True)

    def _asked(self, topic: Body, partition: Body, version: int) -> _Asked:
        name, told = self._topics.asked(topic, version, "topic")
        return _Asked(name=name, topic=told, partition=partition, counted_end=Offset(partition["fetch_offset"]))

    def _serve(self, fetch: _Fetch, *, is_last: bool = False) -> bool:
        errors = [self._error(each) for each in fetch.asked]
        if fetch.wait_ms and not is_last and not any(errors) and not self._has_enough(fetch):
            return False
        self._read(fetch, errors, [], fetch.size_bytes_max)
        return True

    def _error(self, asked: _Asked) -> ErrorCode:
        partition, by_id = asked.partition, "topic_id" in asked.topic
        epoch: int = partition["current_leader_epoch"]
        try:
            status = self._topics.check(asked.name, partition["partition"], epoch=epoch, by_id=by_id)
        except ProtocolError as error:
            return error.code
        # A new leader knows little to be committed at first, so an offset above that is not out of range.
        is_in_log = status.log_start_offset <= partition["fetch_offset"] <= status.log_end_offset
        return ErrorCode.NONE if is_in_log else ErrorCode.OFFSET_OUT_OF_RANGE

    def _has_enough(self, fetch: _Fetch) -> bool:
        """True when the answer would be as large as the request wants it. Each batch is counted once."""
        end = self._records_end(self._topics.status())
        for asked in fetch.asked:
            if asked.counted_end < end:
                size_bytes = self._reads.recent_size_bytes(asked.counted_end, end)
                # What is only in the files is much, since it has left the memory.
                if size_bytes is None:
                    return True
                asked.counted_end, asked.counted_bytes = end, asked.counted_bytes + size_bytes
        return sum(asked.counted_bytes for asked in fetch.asked) >= fetch.size_bytes_min

    def _read(self, fetch: _Fetch, errors: Sequence[ErrorCode], found: list[RecordBuffers], left_bytes: int) -> None:
        if len(found) == len(fetch.asked):
            self._answer(fetch, errors, found)
            return
        at = len(found)
        partition = fetch.asked[at].partition
        offset = Offset(partition["fetch_offset"])
        end = self._records_end(self._topics.status())
        size_bytes_max = max(0, min(partition["partition_max_bytes"], left_bytes))
        # Even the largest batch gets through, if it comes first.
        is_full = not size_bytes_max and any(found)

        def read(records: RecordBuffers | None) -> None:
            if records:
                records, read_end = without_control(records)
                if not records and offset < read_end < end:
                    # Nothing but control batches in so many bytes: the records come later.
                    self._reads.read(read_end, end, size_bytes_max, read, fetch.is_wanted)
                    return
            # None: the log was truncated during the read, or is damaged there, so the client asks again.
            codes = [*errors[:at], ErrorCode.NOT_LEADER_OR_FOLLOWER, *errors[at + 1 :]] if records is None else errors
            size_bytes = sum(map(len, records or ()))
            self._read(fetch, codes, [*found, records or ()], left_bytes - size_bytes)

        if errors[at] or offset >= end or is_full:
            read(())
        else:
            self._reads.read(offset, end, size_bytes_max, read, fetch.is_wanted)

    def _records_end(self, status: Status) -> Offset:
        return self.control_runs.records_end(committed_end(status))

    def _answer(self, fetch: _Fetch, errors: Sequence[ErrorCode], found: Sequence[RecordBuffers]) -> None:
        self._answered_bytes += sum(len(buffer) for records in found for buffer in records)
        status = self._topics.status()
        leader, endpoints = self._topics.leader_bodies(fetch.listener)
        rows: list[Body] = []
        body: Body = {"responses": rows}
        for asked, code, records in zip(fetch.asked, errors, found, strict=True):
            told = {
                "partition_index": asked.partition["partition"],
                "error_code": code,
                "high_watermark": committed_end(status),
                "last_stable_offset": committed_end(status),
                "log_start_offset": status.log_start_offset,
                "aborted_transactions": [],
                "records": records or b"",
            }
            if code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH):
                told["current_leader"], body["node_endpoints"] = leader, endpoints
            if not rows or any(rows[-1][key] != value for key, value in asked.topic.items()):
                rows.append({**asked.topic, "partitions": []})
            rows[-1]["partitions"].append(told)
        fetch.answer(body)
