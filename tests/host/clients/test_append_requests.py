"""Appends of clients: which batches are accepted, and what each outcome of a proposal is answered with.

Source: Kafka's ``ReplicaManager.appendRecords``; ours (ADR 050).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pykraft.core.effects import PlannedBatch
from pykraft.core.events import Proposed
from pykraft.core.status import Status
from pykraft.errors import (
    BufferFullError,
    ErrorCode,
    LeadershipTransferError,
    NotLeaderError,
    NotRunningError,
    ProtocolError,
    RecordBatchTooLargeError,
    UsageError,
)
from pykraft.host import producers as producers_module
from pykraft.host.clients.append_requests import AppendRequests
from pykraft.host.held_messages import HeldMessages
from pykraft.host.inbound import Inbound
from pykraft.host.inbox import Inbox
from pykraft.host.ports import ConnectionId
from pykraft.host.producers import Producers
from pykraft.protocol.api import API_VERSIONS, ApiKey, decode_response, encode_request
from pykraft.protocol.batch import crc_of, read_header
from pykraft.protocol.records import encode_batch, encode_control_batch
from pykraft.protocol.schema import Body
from pykraft.types import Endpoint, Epoch, LeaderChange, Listeners, NodeId, Offset
from tests.host.fakes import CONTEXT, FakePorts

TOPIC = "log"
PRODUCED: Body = {"responses": [], "throttle_time_ms": 0, "node_endpoints": []}
LEADER = Status(
    role="leader",
    epoch=Epoch(4),
    leader_id=NodeId(1),
    leader_listeners=Listeners((("CLIENTS", Endpoint("host", 9)),)),
)
FOLLOWER = LEADER._replace(role="follower", leader_id=NodeId(2))
GOOD = encode_batch([b"a", b"bc"], base_offset=Offset(0), epoch=Epoch(0), timestamp_ms=7).data


class Leader:
    """Appends to a core of lists."""

    def __init__(self, status: Status = LEADER) -> None:
        self.status = status
        self.inbox = Inbox()
        self.producers = Producers(batch_size_bytes_max=1_000)
        self.answers: list[Body] = []
        self._appends = AppendRequests(self.producers, self.inbox, topic_name=TOPIC, status=lambda: self.status)

    def ask(
        self, records: Any = GOOD, *, name: str = TOPIC, index: int = 0, listener: str = "CLIENTS", **changes: Any
    ) -> None:
        topics = [{"name": name, "partition_data": [{"index": index, "records": records}]}]
        body = {"transactional_id": None, "acks": -1, "timeout_ms": 1, "topic_data": topics} | changes
        self._appends.handle(body, listener, self.answers.append)

    def proposed(self) -> Proposed:
        arrival = self.inbox.take()
        assert arrival is not None
        assert isinstance(arrival.event, Proposed)
        return arrival.event

    def append(self, base_offset: int) -> None:
        """The core plans the proposed batch, and the host encodes it."""
        proposed = self.proposed()
        plan = PlannedBatch(
            base_offset=Offset(base_offset),
            end_offset=Offset(base_offset + proposed.count),
            epoch=proposed.epoch,
            timestamp_ms=1,
            handles=(proposed.handle,),
        )
        self.producers.encode(plan)

    def answered(self) -> Body:
        """The part of the only answer that is about the partition."""
        [answer] = self.answers
        [topic] = answer["responses"]
        [part] = topic["partition_responses"]
        assert isinstance(part, dict)
        return part


def test_records_are_answered_when_they_are_committed() -> None:
    leader = Leader()
    leader.ask()
    leader.append(10)
    leader.producers.committed(Offset(11))
    assert leader.answers == []
    leader.status = FOLLOWER._replace(epoch=Epoch(5))
    leader.producers.committed(Offset(12))
    told = leader.answered()
    assert (told["error_code"], told["base_offset"]) == (ErrorCode.NONE, 10)
    assert told["current_leader"] == {"leader_id": 2, "leader_epoch": 4}, "the epoch of the append"


def test_a_lost_leadership_leaves_the_outcome_unknown() -> None:
    leader = Leader()
    leader.ask(acks=1)
    leader.append(10)
    leader.producers.lost(Epoch(5))
    told = leader.answered()
    assert (told["error_code"], told["base_offset"]) == (ErrorCode.REQUEST_TIMED_OUT, 10)
    assert "appended the records at offset 10" in told["error_message"]


def test_a_node_that_does_not_lead_names_the_leader() -> None:
    leader = Leader(FOLLOWER)
    leader.ask()
    told = leader.answered()
    assert (told["error_code"], told["current_leader"]["leader_id"]) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 2)
    assert leader.answers[0]["node_endpoints"] == [{"node_id": 2, "host": "host", "port": 9}]
    for status, listener, known in ((FOLLOWER, "OTHER", 2), (FOLLOWER._replace(leader_id=None), "CLIENTS", -1)):
        other = Leader(status)
        other.ask(listener=listener)
        assert other.answers[0]["node_endpoints"] == []
        assert other.answered()["current_leader"]["leader_id"] == known


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (NotLeaderError(2, 5), ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (NotRunningError("stopped"), ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (BufferFullError("full"), ErrorCode.THROTTLING_QUOTA_EXCEEDED),
        (LeadershipTransferError(2), ErrorCode.THROTTLING_QUOTA_EXCEEDED),
        (RecordBatchTooLargeError("large"), ErrorCode.MESSAGE_TOO_LARGE),
    ],
)
def test_a_rejection_says_that_nothing_was_appended(error: Exception, code: ErrorCode) -> None:
    leader = Leader()
    leader.ask()
    leader.producers.reject(leader.proposed().handle, error)
    assert (leader.answered()["error_code"], leader.answered()["base_offset"]) == (code, -1)


def test_another_rejection_is_our_bug() -> None:
    leader = Leader()
    leader.ask()
    handle = leader.proposed().handle
    with pytest.raises(AssertionError, match="a proposal was rejected"):
        leader.producers.reject(handle, UsageError("a future epoch"))


def test_too_many_proposals_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producers_module, "UNDECIDED_PROPOSALS_MAX", 0)
    leader = Leader()
    leader.ask()
    assert leader.inbox.take() is None
    assert leader.answered()["error_code"] == ErrorCode.THROTTLING_QUOTA_EXCEEDED


def altered(position: int, byte: int) -> bytes:
    data = bytearray(GOOD)
    data[position] = byte
    return bytes(data)


CONTROL = encode_control_batch(
    [LeaderChange(leader_id=NodeId(1), voters=(), granting_voters=())],
    base_offset=Offset(0),
    epoch=Epoch(1),
    timestamp_ms=0,
).data


@pytest.mark.parametrize(
    ("records", "says"),
    [
        (None, "there are no records"),
        (b"", "there are no records"),
        (b"x", ""),
        (GOOD + GOOD, "more than one batch"),
        (altered(70, 1), "CRC"),
        (CONTROL, "control batches, transactions and producer ids"),
    ],
)
def test_a_batch_that_no_kraft_reader_accepts_is_refused(records: bytes | None, says: str) -> None:
    leader = Leader()
    leader.ask(records)
    assert says in leader.answered()["error_message"]
    assert leader.inbox.take() is None


def test_a_compressed_batch_is_refused() -> None:
    data = bytearray(altered(22, 1))
    data[17:21] = crc_of(data, 0, read_header(data)).to_bytes(4, "big")
    leader = Leader()
    leader.ask(bytes(data))
    assert leader.answered()["error_message"] == "compressed batches are not accepted"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"name": "other"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"index": 1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"acks": 2}, ErrorCode.INVALID_REQUIRED_ACKS),
        ({"transactional_id": "t"}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_is_not_supported_is_refused(changes: dict[str, Any], code: ErrorCode) -> None:
    leader = Leader()
    leader.ask(**changes)
    assert leader.answered()["error_code"] == code


@pytest.mark.parametrize(
    "changes", [{"acks": 0}, {"topic_data": []}, {"topic_data": [{"name": TOPIC, "partition_data": []}]}]
)
def test_what_cannot_be_answered_closes_the_connection(changes: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError):
        Leader().ask(**changes)


class Door:
    """Inbound connections whose appends a test answers: connection 1 on a listener that serves them, 2 on another."""

    def __init__(self) -> None:
        self.ports = FakePorts()
        self.appends: list[tuple[Body, str, Callable[[Body], None]]] = []
        self.inbound = Inbound(
            self.ports,
            Inbox(),
            HeldMessages(),
            context=CONTEXT,
            describe_cluster=lambda *_: {},
            append=lambda *told: self.appends.append(told),
            kraft_versions=None,
            kraft_version=lambda: 0,
            append_listeners=("WRITABLE",),
        )
        self.inbound.on_accepted(ConnectionId(1), "Writable")
        self.inbound.on_accepted(ConnectionId(2), "OTHER")

    def ask(self, connection: int, key: ApiKey, version: int, body: Body) -> None:
        parts = encode_request(key, version, 6, "client", body)
        self.inbound.on_frame(ConnectionId(connection), b"".join(bytes(part) for part in parts))

    def answered(self, key: ApiKey, version: int) -> Body:
        [(_, frame)] = self.ports.sent
        self.ports.sent = []
        return decode_response(key, version, frame)[1]

    def served(self, connection: int) -> set[int]:
        """The APIs that this connection is told of."""
        self.ask(connection, ApiKey.API_VERSIONS, 3, {})
        return {each["api_key"] for each in self.answered(ApiKey.API_VERSIONS, 3)["api_keys"]}


def produce_body() -> Body:
    topics = [{"name": TOPIC, "partition_data": [{"index": 0, "records": b"x"}]}]
    return {"transactional_id": None, "acks": -1, "timeout_ms": 0, "topic_data": topics}


def test_records_are_appended_only_where_this_is_configured() -> None:
    door = Door()
    assert door.served(1) == {*API_VERSIONS, ApiKey.PRODUCE}
    assert door.served(2) == set(API_VERSIONS)
    door.ask(2, ApiKey.PRODUCE, 12, produce_body())
    assert (door.appends, door.ports.closed) == ([], [2])
    door.ask(1, ApiKey.PRODUCE, 12, produce_body())
    [(request, listener, answer)] = door.appends
    assert (request["acks"], listener) == (-1, "Writable")
    assert door.ports.sent == []
    answer(PRODUCED)
    assert door.answered(ApiKey.PRODUCE, 12) == PRODUCED


def test_an_append_that_is_decided_after_its_connection_closed_is_not_answered() -> None:
    door = Door()
    door.ask(1, ApiKey.PRODUCE, 12, produce_body())
    door.inbound.on_closed(ConnectionId(1))
    door.appends[0][2](PRODUCED)
    assert door.ports.sent == []
