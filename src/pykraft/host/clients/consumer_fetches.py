"""Fetch for consumers: committed records, or a wait until there are some.

The leader answers from its log up to the high watermark. There are no fetch sessions: every answer has session id 0, so
a client sends its whole request each time. A Fetch waits at most as long as it asks for, and at most WAIT_MS_MAX; any
new record answers it. At most FETCHES_MAX wait: one more answers the oldest. Invariant: no record above the high
watermark is ever sent.

Source: Kafka's ``ReplicaManager.fetchMessages`` and ``DelayedFetch``; KIP-227 (sessions), KIP-320 (epochs).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from pykraft.core.status import Status
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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Fetch:
    """One request about the one partition; ``name`` is None for an unknown topic id."""

    name: str | None
    topic: Body
    partition: Body
    size_bytes_max: int
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
        self,
        body: Body,
        version: int,
        listener: str,
        is_wanted: Callable[[], bool],
        answer: Callable[[Body], None],
    ) -> None:
        """Answer one request now or later."""
        if body["session_id"]:
            answer({"error_code": ErrorCode.FETCH_SESSION_ID_NOT_FOUND})
            return
        topics: list[Any] = body["topics"]
        if not topics or not topics[0]["partitions"]:
            answer({})
            return
        [topic] = topics
        [partition] = topic["partitions"]
        if version < TOPIC_ID_VERSION:
            name, topic = topic["topic"], {"topic": topic["topic"]}
        else:
            name, topic = self._topics.name_of(topic["topic_id"]), {"topic_id": Uuid(topic["topic_id"])}
        fetch = _Fetch(
            name=name,
            topic=topic,
            partition=partition,
            size_bytes_max=max(0, min(partition["partition_max_bytes"], body["max_bytes"], SIZE_BYTES_MAX)),
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

    def look(self) -> None:
        """Answer what can be answered: there are new records, or this node leads no more."""
        for fetch in list(self._waiting):
            if not fetch.is_wanted() or self._serve(fetch):
                self._waiting.pop(fetch, None)

    def poll(self, mono_ms: int) -> None:
        """Advance to this time."""
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
        """The wait is over: an empty answer."""
        del self._waiting[fetch]
        self._serve(fetch, is_last=True)

    def _serve(self, fetch: _Fetch, *, is_last: bool = False) -> bool:
        """Answer, unless the request should wait."""
        partition, offset = fetch.partition, Offset(fetch.partition["fetch_offset"])
        by_id = "topic_id" in fetch.topic
        epoch: int = partition["current_leader_epoch"]
        try:
            status = self._topics.check(fetch.name, partition["partition"], epoch=epoch, by_id=by_id)
        except ProtocolError as error:
            self._answer(fetch, self._topics.status(), error.code, ())
            return True
        # A new leader knows little to be committed at first, so an offset above that is not out of range.
        if not status.log_start_offset <= offset <= status.log_end_offset:
            self._answer(fetch, status, ErrorCode.OFFSET_OUT_OF_RANGE, ())
            return True
        end = committed_end(status)
        if offset >= end and fetch.wait_ms and not is_last:
            return False

        def read(records: RecordBuffers | None) -> None:
            # None: the log was truncated during the read, or is damaged there, so the client asks again.
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER if records is None else ErrorCode.NONE
            self._answer(fetch, status, code, records or ())

        self._reads.read(offset, max(offset, end), fetch.size_bytes_max, read, fetch.is_wanted)
        return True

    def _answer(self, fetch: _Fetch, status: Status, code: ErrorCode, records: RecordBuffers) -> None:
        told = {
            "partition_index": fetch.partition["partition"],
            "error_code": code,
            "high_watermark": committed_end(status),
            "last_stable_offset": committed_end(status),
            "log_start_offset": status.log_start_offset,
            "aborted_transactions": [],
            "records": records or b"",
        }
        body: Body = {"responses": [{**fetch.topic, "partitions": [told]}]}
        if code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH):
            told["current_leader"], body["node_endpoints"] = self._topics.leader_bodies(fetch.listener)
        fetch.answer(body)
