"""Fetch for consumers: committed records, or a wait until there are some.

The leader answers from its log up to the high watermark. There are no fetch sessions: every answer has session id 0, so
a client sends its whole request each time. A Fetch waits at most as long as it asks for, and at most WAIT_MS_MAX, until
there are as many bytes as it asks for; an error in one of its partitions answers it at once. At most FETCHES_MAX wait:
one more answers the oldest. Invariant: no record above the high watermark is ever sent.

Source: Kafka's ``ReplicaManager.fetchMessages`` and ``DelayedFetch``; KIP-227 (sessions), KIP-320 (epochs).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from pykraft.errors import ErrorCode, ProtocolError
from pykraft.host.clients.topics import ClientTopics, committed_end
from pykraft.host.fetch_read import FetchReads, RecordBuffers
from pykraft.host.ports import AT_ONCE_MS, Ports
from pykraft.protocol.schema import Body
from pykraft.types import Offset, Uuid

FETCHES_MAX: Final = 1_000
"""Fetches of consumers that may wait at one time."""
WAIT_MS_MAX: Final = 30_000
"""No Fetch waits longer, whatever it asks for."""
SIZE_BYTES_MAX: Final = 8 * 1024 * 1024
"""Most bytes of records in one answer; one whole batch always fits."""
TOPIC_ID_VERSION: Final = 13


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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Fetch:
    """One request; an answer before the time is over has at least ``size_bytes_min`` of records, or an error."""

    asked: tuple[_Asked, ...]
    size_bytes_max: int
    size_bytes_min: int
    listener: str
    is_wanted: Callable[[], bool]
    answer: Callable[[Body], None]
    wait_ms: int


class ConsumerFetches:
    """All Fetches of consumers, and those that wait."""

    def __init__(self, ports: Ports, reads: FetchReads, topics: ClientTopics) -> None:
        self._ports = ports
        self._reads = reads
        self._topics = topics
        self._waiting: dict[_Fetch, int | None] = {}

    def handle(
        self, body: Body, version: int, listener: str, is_wanted: Callable[[], bool], answer: Callable[[Body], None]
    ) -> None:
        if body["session_id"]:
            answer({"error_code": ErrorCode.FETCH_SESSION_ID_NOT_FOUND})
            return
        asked = tuple(
            self._asked(topic, partition, version) for topic in body["topics"] for partition in topic["partitions"]
        )
        if not asked:
            answer({})
            return
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
        if not self._serve(fetch):
            if len(self._waiting) >= FETCHES_MAX:
                self._end(next(iter(self._waiting)))
            self._waiting[fetch] = None
            # `poll` sets the deadline, since it knows the time.
            self._ports.wake_at(AT_ONCE_MS)

    def answer_ready(self) -> None:
        """Answer what can be answered: there are new records, or this node leads no more."""
        for fetch in list(self._waiting):
            if not fetch.is_wanted() or self._serve(fetch):
                self._waiting.pop(fetch, None)

    def poll(self, mono_ms: int) -> None:
        for fetch, deadline_ms in list(self._waiting.items()):
            if deadline_ms is None:
                self._waiting[fetch] = mono_ms + fetch.wait_ms
            elif deadline_ms <= mono_ms:
                self._end(fetch)

    @property
    def next_deadline_ms(self) -> int | None:
        """When `poll` has something to do (mono ms)."""
        return min((AT_ONCE_MS if each is None else each for each in self._waiting.values()), default=None)

    def _end(self, fetch: _Fetch) -> None:
        del self._waiting[fetch]
        self._serve(fetch, is_last=True)

    def _asked(self, topic: Body, partition: Body, version: int) -> _Asked:
        if version < TOPIC_ID_VERSION:
            name, told = topic["topic"], {"topic": topic["topic"]}
        else:
            name, told = self._topics.name_of(topic["topic_id"]), {"topic_id": Uuid(topic["topic_id"])}
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
        end = committed_end(self._topics.status())
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
        end = committed_end(self._topics.status())
        size_bytes_max = max(0, min(partition["partition_max_bytes"], left_bytes))
        # Even the largest batch gets through, if it comes first.
        is_full = not size_bytes_max and any(found)

        def read(records: RecordBuffers | None) -> None:
            # None: the log was truncated during the read, or is damaged there, so the client asks again.
            codes = [*errors[:at], ErrorCode.NOT_LEADER_OR_FOLLOWER, *errors[at + 1 :]] if records is None else errors
            size_bytes = sum(map(len, records or ()))
            self._read(fetch, codes, [*found, records or ()], left_bytes - size_bytes)

        if errors[at] or offset >= end or is_full:
            read(())
        else:
            self._reads.read(offset, end, size_bytes_max, read, fetch.is_wanted)

    def _answer(self, fetch: _Fetch, errors: Sequence[ErrorCode], found: Sequence[RecordBuffers]) -> None:
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
