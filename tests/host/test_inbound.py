"""Requests of other nodes: which reach the core, which are answered without it, in which order, and what closes.

When a connection closes, its requests end, and the core hears of a parked Fetch.

The operators' APIs are served only on the configured listeners.

The progress of an answer, sent or received, is known as long as it matters.

Source: Kafka's ``SocketServer`` and ``RequestChannel``; KIP-511; ours; Kafka's ``SocketServer`` lets an abandoned Fetch
expire; ours (ADR 035); ours (ADR 036).
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.core.events import UNSEEN_SIZE_BYTES, RequestAbandoned, RequestReceived
from pykraft.core.messages import BeginQuorumEpochResponse, FetchRequest, FetchResponse, VoteRequest, VoteResponse
from pykraft.errors import ErrorCode
from pykraft.host.inbound import OPERATOR_KEYS, UNANSWERED_REQUESTS_MAX, Clients, Inbound
from pykraft.host.inbox import HeldMessages, Inbox
from pykraft.host.ports import ConnectionId
from pykraft.protocol.api import (
    API_VERSIONS,
    ApiKey,
    RequestHeader,
    decode_request_header,
    decode_response,
    encode_request,
)
from pykraft.protocol.cut_frame import CutFrame
from pykraft.protocol.schema import Body
from pykraft.types import KRAFT_VERSIONS, ZERO_UUID, Epoch, Io, NodeId, Offset, ReportKind, VersionRange
from tests.host.fakes import CLUSTER_ID, CONTEXT, LISTENER, TOPIC_ID, TOPIC_NAME, FakePorts, batch, joined
from tests.host.test_peers import Desk as Dialing
from tests.protocol.test_api import OURS, Recorded, file_id, load, unframed
from tests.rpc.test_connection import vote_answer

ONE = ConnectionId(1)


class Desk:
    """Inbound connections on a world of lists; connection 1 is accepted."""

    def __init__(
        self,
        *,
        kraft_versions: VersionRange | None = KRAFT_VERSIONS,
        clients: Clients | None = None,
        refuses: bool = False,
        controller_listeners: tuple[str, ...] | None = None,
    ) -> None:
        self.ports = FakePorts()
        self.inbox = Inbox()
        self.held = HeldMessages()
        self.kraft_version = 0
        self.inbound = Inbound(
            self.ports,
            self.inbox,
            self.held,
            context=CONTEXT,
            node_id=1,
            describe_cluster=lambda *_: {"cluster_id": "described"},
            kraft_versions=kraft_versions,
            kraft_version=lambda: self.kraft_version,
            clients=clients,
            client_listeners=() if clients is None else (LISTENER.upper(),),
            refuses_controller_requests=refuses,
            controller_listeners=controller_listeners,
        )
        self.inbound.on_accepted(ONE, LISTENER)

    def ask(
        self, api_key: ApiKey, version: int, body: Body, *, wire_id: int = 5, connection: ConnectionId = ONE
    ) -> None:
        """One request arrives."""
        parts = encode_request(api_key, version, wire_id, "somebody", body)
        self.inbound.on_frame(connection, b"".join(bytes(part) for part in parts))

    def vote(self, *, wire_id: int = 5, connection: ConnectionId = ONE, **changes: Any) -> None:
        self.ask(ApiKey.VOTE, 2, vote_body(**changes), wire_id=wire_id, connection=connection)

    def received(self) -> list[RequestReceived]:
        arrivals = list(iter(self.inbox.take, None))
        assert all(isinstance(arrival.event, RequestReceived) for arrival in arrivals)
        return [arrival.event for arrival in arrivals if isinstance(arrival.event, RequestReceived)]

    def answers(self, api_key: ApiKey, version: int) -> list[tuple[int, Body]]:
        """Correlation ids and bodies of all answers since."""
        frames, self.ports.sent = self.ports.sent, []
        return [decode_response(api_key, version, frame) for _, frame in frames]


def vote_body(*, cluster_id: str | None = CLUSTER_ID, topic_name: str = TOPIC_NAME) -> Body:
    partition = {
        "partition_index": 0,
        "replica_epoch": 3,
        "replica_id": 2,
        "replica_directory_id": ZERO_UUID,
        "voter_directory_id": ZERO_UUID,
        "last_offset_epoch": 2,
        "last_offset": 7,
        "pre_vote": True,
    }
    topics = [{"topic_name": topic_name, "partitions": [partition]}]
    return {"cluster_id": cluster_id, "voter_id": 1, "topics": topics}


def fetch_body() -> Body:
    partition = {
        "partition": 0,
        "current_leader_epoch": 3,
        "fetch_offset": 4,
        "last_fetched_epoch": 2,
        "partition_max_bytes": 0,
    }
    topics = [{"topic_id": TOPIC_ID, "partitions": [partition]}]
    return {"cluster_id": CLUSTER_ID, "max_wait_ms": 500, "min_bytes": 0, "max_bytes": 1000, "topics": topics}


def granted() -> VoteResponse:
    return VoteResponse(error=0, epoch=Epoch(3), leader_id=None, vote_granted=True)


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.mark.conformance("H28")
def test_a_request_reaches_the_core_and_its_answer_the_connection_it_came_from(desk: Desk) -> None:
    desk.vote(wire_id=77)
    (event,) = desk.received()
    assert event.listener == LISTENER
    assert isinstance(event.message, VoteRequest)
    assert (event.message.epoch, event.message.candidate.id, event.message.pre_vote) == (3, 2, True)
    desk.inbound.reply(event.request_id, granted())
    assert [connection for connection, _ in desk.ports.sent] == [ONE]
    ((wire_id, body),) = desk.answers(ApiKey.VOTE, 2)
    assert wire_id == 77
    assert body["topics"][0]["partitions"][0]["vote_granted"] is True


def test_an_answer_is_written_in_the_version_of_its_request(desk: Desk) -> None:
    desk.ask(ApiKey.BEGIN_QUORUM_EPOCH, 0, begin_body())
    (event,) = desk.received()
    response = BeginQuorumEpochResponse(error=0, epoch=Epoch(3), leader_id=NodeId(2))
    desk.inbound.reply(event.request_id, response)
    ((_, body),) = desk.answers(ApiKey.BEGIN_QUORUM_EPOCH, 0)
    assert body["topics"][0]["partitions"][0]["leader_epoch"] == 3


def begin_body() -> Body:
    partition = {"partition_index": 0, "leader_id": 2, "leader_epoch": 3}
    return {"cluster_id": None, "topics": [{"topic_name": TOPIC_NAME, "partitions": [partition]}]}


def test_records_are_sent_as_they_are(desk: Desk) -> None:
    desk.ask(ApiKey.FETCH, 18, fetch_body())
    (event,) = desk.received()
    assert isinstance(event.message, FetchRequest)
    batches = [batch(4), batch(5, b"x" * 1000)]
    response = FetchResponse(
        error=0, epoch=Epoch(3), leader_id=NodeId(1), high_watermark=Offset(4), log_start_offset=Offset(0)
    )
    desk.inbound.reply(event.request_id, response, [data for _, data in batches])
    ((_, body),) = desk.answers(ApiKey.FETCH, 18)
    assert bytes(body["responses"][0]["partitions"][0]["records"]) == joined(batches)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"cluster_id": "another"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"cluster_id": ""}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"topic_name": "another"}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_another_cluster_or_topic_is_answered_without_the_core(desk: Desk, changes: Body, error: ErrorCode) -> None:
    desk.vote(**changes)
    assert desk.received() == []
    ((wire_id, body),) = desk.answers(ApiKey.VOTE, 2)
    assert (wire_id, body["error_code"]) == (5, error)
    assert desk.ports.closed == []


def test_a_request_without_cluster_id_is_accepted(desk: Desk) -> None:
    desk.vote(cluster_id=None)
    assert len(desk.received()) == 1


def test_answers_leave_in_the_order_of_the_requests(desk: Desk) -> None:
    desk.ask(ApiKey.FETCH, 18, fetch_body(), wire_id=1)
    desk.vote(wire_id=2)
    desk.ask(ApiKey.API_VERSIONS, 3, {}, wire_id=3)
    desk.vote(wire_id=4)
    fetch, vote, last = desk.received()
    desk.inbound.reply(vote.request_id, granted())
    assert desk.ports.sent == []
    response = FetchResponse(
        error=0, epoch=Epoch(3), leader_id=NodeId(1), high_watermark=None, log_start_offset=Offset(0)
    )
    desk.inbound.reply(fetch.request_id, response)
    assert [int.from_bytes(frame[:4], "big") for _, frame in desk.ports.sent] == [1, 2, 3]
    desk.inbound.reply(last.request_id, granted())
    assert int.from_bytes(desk.ports.sent[-1][1][:4], "big") == 4


def test_connections_do_not_wait_for_each_other(desk: Desk) -> None:
    desk.inbound.on_accepted(ConnectionId(2), LISTENER)
    desk.vote()
    desk.vote(connection=ConnectionId(2))
    _, second = desk.received()
    desk.inbound.reply(second.request_id, granted())
    assert [connection for connection, _ in desk.ports.sent] == [2]


@pytest.mark.conformance(115)
def test_too_many_unanswered_requests_close_the_connection(desk: Desk) -> None:
    for _ in range(UNANSWERED_REQUESTS_MAX):
        desk.vote()
    assert desk.ports.closed == []
    desk.vote()
    assert desk.ports.closed == [ONE]
    assert len(desk.ports.reports) == 1
    assert len(desk.received()) == UNANSWERED_REQUESTS_MAX


def test_answered_requests_do_not_count(desk: Desk) -> None:
    for _ in range(3 * UNANSWERED_REQUESTS_MAX):
        desk.vote()
        (event,) = desk.received()
        desk.inbound.reply(event.request_id, granted())
    assert desk.ports.closed == []


@pytest.mark.conformance(117)
def test_an_answer_to_a_connection_that_is_gone_goes_nowhere(desk: Desk) -> None:
    desk.vote()
    (event,) = desk.received()
    desk.held.send_when_durable(("reply to request", event.request_id), Io(3), lambda: pytest.fail("it left"))
    desk.inbound.on_closed(ONE)
    desk.inbound.on_closed(ONE)
    desk.held.persisted(Io(3))
    desk.inbound.reply(event.request_id, granted())
    desk.inbound.close(event.request_id, "no reason")
    assert desk.ports.sent == []
    assert desk.ports.closed == []
    assert desk.ports.reports == []


def test_nothing_is_read_from_a_connection_that_was_closed(desk: Desk) -> None:
    desk.inbound.on_frame(ONE, b"garbage")
    desk.vote()
    assert desk.received() == []
    assert len(desk.ports.closed) == 1


def test_the_core_can_close_a_requester(desk: Desk) -> None:
    desk.vote()
    (event,) = desk.received()
    desk.inbound.close(event.request_id, "two leaders in epoch 3")
    assert desk.ports.closed == [ONE]
    assert desk.ports.reports == [f"closing connection 1 on {LISTENER}: two leaders in epoch 3"]
    assert desk.ports.kinds == [ReportKind.REQUESTER_CLOSED]


def test_a_second_answer_to_one_request_is_not_sent(desk: Desk) -> None:
    desk.vote()
    (event,) = desk.received()
    desk.inbound.reply(event.request_id, granted())
    desk.inbound.reply(event.request_id, granted())
    assert len(desk.ports.sent) == 1


@pytest.mark.conformance(147, "H56")
@pytest.mark.parametrize("version", range(6))
def test_api_versions_lists_what_is_served(desk: Desk, version: int) -> None:
    desk.ask(ApiKey.API_VERSIONS, version, {})
    ((wire_id, body),) = desk.answers(ApiKey.API_VERSIONS, version)
    assert (wire_id, body["error_code"]) == (5, 0)
    found = {one["api_key"]: (one["min_version"], one["max_version"]) for one in body["api_keys"]}
    assert found == {key: (versions.min, versions.max) for key, versions in API_VERSIONS.items()}
    assert (found[ApiKey.FETCH], found[ApiKey.VOTE], found[ApiKey.API_VERSIONS]) == ((4, 18), (0, 2), (0, 5))
    features = [(one["name"], one["min_version"], one["max_version"]) for one in body.get("supported_features", [])]
    assert features == ([("kraft.version", 0, 1)] if version >= 4 else [])
    assert desk.received() == []


@pytest.mark.conformance(147)
@pytest.mark.parametrize("version", [-1, 6, 99])
def test_api_versions_of_an_unknown_version_is_answered_in_version_0(desk: Desk, version: int) -> None:
    key, tags = ApiKey.API_VERSIONS.to_bytes(2, "big"), b"\0" if version > 0 else b""
    raw = key + version.to_bytes(2, "big", signed=True) + b"\0\0\0\x09\xff\xff" + tags + b"whatever"
    desk.inbound.on_frame(ONE, raw)
    ((wire_id, body),) = desk.answers(ApiKey.API_VERSIONS, 0)
    assert (wire_id, body["error_code"]) == (9, ErrorCode.UNSUPPORTED_VERSION)
    assert {"api_key": ApiKey.API_VERSIONS, "min_version": 0, "max_version": 5} in body["api_keys"]
    assert desk.ports.closed == []


def test_describe_cluster_is_answered_without_the_core(desk: Desk) -> None:
    desk.ask(ApiKey.DESCRIBE_CLUSTER, 2, {"endpoint_type": 2})
    ((_, body),) = desk.answers(ApiKey.DESCRIBE_CLUSTER, 2)
    assert body["cluster_id"] == "described"


GARBAGE = {
    "nothing": b"",
    "a cut header": b"\x00\x34\x00\x02\x00",
    "a TLS hello": bytes.fromhex("160301020001 0001fc0303"),
    "HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "an unknown API": b"\x03\xe7\x00\x00\x00\x00\x00\x01\xff\xff",
    "an API of brokers": b"\x00\x03\x00\x0c\x00\x00\x00\x01\xff\xff\x00",
    "a negative API": b"\xff\xff\x00\x00\x00\x00\x00\x01\xff\xff",
    "an unknown version": b"\x00\x34\x00\x63\x00\x00\x00\x01\xff\xff\x00",
    "a body that is cut": b"\x00\x34\x00\x02\x00\x00\x00\x01\xff\xff\x00\x01",
    "a client id that is no text": b"\x00\x34\x00\x02\x00\x00\x00\x01\x00\x02\xff\xfe\x00\x01",
    "an absurd count": b"\x00\x34\x00\x02\x00\x00\x00\x01\xff\xff\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\x0f",
}


@pytest.mark.parametrize("raw", GARBAGE.values(), ids=GARBAGE.keys())
def test_what_has_no_answer_closes_the_connection_with_one_line(desk: Desk, raw: bytes) -> None:
    desk.inbound.on_frame(ONE, raw)
    assert desk.ports.closed == [ONE]
    assert len(desk.ports.reports) == 1
    assert desk.ports.sent == []
    assert desk.received() == []


@given(st.binary(max_size=80))
def test_no_bytes_raise(raw: bytes) -> None:
    Desk().inbound.on_frame(ONE, raw)


@given(st.sampled_from(OURS), st.data())
def test_no_recorded_request_raises_however_it_is_cut_or_changed(path: Any, data: st.DataObject) -> None:
    raw = bytearray(unframed(load(path).request))
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    Desk().inbound.on_frame(ONE, bytes(raw[: data.draw(st.integers(0, len(raw)))]))


def recordings() -> Iterator[Recorded]:
    """Kafka's own clients asking for versions."""
    yield from (load(path) for path in OURS if "ApiVersions" in path.name)


@pytest.mark.conformance(147)
def test_kafkas_own_api_versions_requests_get_what_kafka_gives_to_the_apis_that_we_serve() -> None:
    """The same API keys with the same versions, as far as Kafka 4.3.1 knows them; and kraft.version the same."""
    for recorded in recordings():
        desk = Desk()
        raw = unframed(recorded.request)
        header = decode_request_header(raw)
        desk.inbound.on_frame(ONE, raw)
        ((wire_id, ours),) = desk.answers(ApiKey.API_VERSIONS, header.api_version)
        kafka_id, kafkas = decode_response(ApiKey.API_VERSIONS, header.api_version, unframed(recorded.response))
        assert (wire_id, ours["error_code"]) == (kafka_id, kafkas["error_code"])
        theirs = {one["api_key"]: one for one in kafkas["api_keys"]}
        for one in ours["api_keys"]:
            if one["api_key"] in (ApiKey.API_VERSIONS, ApiKey.FETCH) or one["api_key"] not in theirs:
                continue
            assert one == theirs[one["api_key"]]
        assert all(feature in kafkas["supported_features"] for feature in ours["supported_features"])


@pytest.mark.conformance("H56")
@pytest.mark.parametrize("path", OURS, ids=file_id)
def test_no_recorded_request_of_our_apis_closes_a_connection(desk: Desk, path: Any) -> None:
    """Recorded in another cluster: most get the error of that, DescribeQuorum that of its topic."""
    desk.inbound.on_frame(ONE, unframed(load(path).request))
    assert desk.ports.closed == []
    assert len(desk.ports.sent) + len(desk.received()) == 1


@pytest.mark.conformance(117)
def test_the_core_hears_that_nobody_waits_for_a_fetch_any_more(desk: Desk) -> None:
    desk.vote()
    desk.ask(ApiKey.FETCH, 17, fetch_body())
    desk.ask(ApiKey.FETCH, 17, fetch_body())
    _, first, second = desk.received()
    assert desk.inbound.awaits(first.request_id)
    desk.inbound.reply(
        first.request_id,
        FetchResponse(
            error=0, epoch=Epoch(3), leader_id=NodeId(1), high_watermark=Offset(4), log_start_offset=Offset(0)
        ),
    )
    desk.inbound.on_closed(ONE)
    found = desk.inbox.take()
    assert found is not None
    assert found.event == RequestAbandoned(request_id=second.request_id)
    assert desk.inbox.take() is None
    assert not desk.inbound.awaits(second.request_id)


@pytest.mark.parametrize("names", [None, ("ADMIN",), ()])
@pytest.mark.parametrize("listener", ["ADMIN", "CONTROLLER"])
def test_a_listener_serves_operators_if_it_is_meant_for_them(listener: str, names: tuple[str, ...] | None) -> None:
    ports, inbox = FakePorts(), Inbox()
    context = replace(CONTEXT)
    inbound = Inbound(
        ports,
        inbox,
        HeldMessages(),
        context=context,
        describe_cluster=lambda *_: {},
        kraft_versions=KRAFT_VERSIONS,
        kraft_version=lambda: 1,
        operator_listeners=names,
    )
    inbound.on_accepted(ONE, listener)
    serves = names is None or listener in names
    for version in (3, 99):
        parts = encode_request(ApiKey.API_VERSIONS, min(version, 3), 5, "x", {})
        raw = bytearray(b"".join(bytes(part) for part in parts))
        raw[2:4] = version.to_bytes(2, "big")
        inbound.on_frame(ONE, bytes(raw))
        _, frame = ports.sent.pop()
        _, body = decode_response(ApiKey.API_VERSIONS, 0 if version == 99 else 3, frame)
        told = {one["api_key"] for one in body["api_keys"]}
        assert told == set(API_VERSIONS) - (set() if serves else OPERATOR_KEYS)
    parts = encode_request(ApiKey.REMOVE_RAFT_VOTER, 0, 6, "x", {"voter_id": 1})
    inbound.on_frame(ONE, b"".join(bytes(part) for part in parts))
    assert (inbox.take() is not None) is serves
    assert ports.closed == ([] if serves else [ONE])


def test_how_much_of_a_watched_answer_has_left_is_told_until_all_has(desk: Desk) -> None:
    for _ in range(2):
        desk.ask(ApiKey.FETCH, 18, fetch_body())
    first, event = desk.received()
    response = FetchResponse(
        error=0, epoch=Epoch(3), leader_id=NodeId(1), high_watermark=Offset(4), log_start_offset=Offset(0)
    )
    desk.inbound.reply(first.request_id, response, [batch(4)[1]])
    assert desk.inbound.leaving() == []
    desk.inbound.reply(event.request_id, response, [batch(4, b"x" * 5_000)[1]], is_watched=True)
    size_bytes = len(desk.ports.sent[-1][1]) + 4
    for unsent_bytes in (size_bytes + 100, 2_000, 0):
        desk.ports.unsent[ONE] = unsent_bytes
        (gone,) = desk.inbound.leaving()
        assert (gone.request_id, gone.size_bytes) == (event.request_id, size_bytes)
        assert gone.sent_bytes == max(0, size_bytes - unsent_bytes)
    assert desk.inbound.leaving() == []


def test_a_large_answer_that_has_left_is_told_until_its_receiver_asks_again(desk: Desk) -> None:
    desk.ask(ApiKey.FETCH, 18, fetch_body())
    (event,) = desk.received()
    response = FetchResponse(
        error=0, epoch=Epoch(3), leader_id=NodeId(1), high_watermark=Offset(4), log_start_offset=Offset(0)
    )
    records = batch(4, b"x" * UNSEEN_SIZE_BYTES)[1]
    desk.inbound.reply(event.request_id, response, [records], is_watched=True)
    desk.ports.unsent[ONE] = 0
    for _ in range(3):
        (gone,) = desk.inbound.leaving()
        assert gone.sent_bytes == gone.size_bytes > UNSEEN_SIZE_BYTES
    desk.vote()
    assert desk.inbound.leaving() == []


@pytest.mark.parametrize("ends", [False, True])
def test_who_asks_again_or_is_gone_has_no_answer_that_leaves(desk: Desk, ends: bool) -> None:
    desk.ask(ApiKey.FETCH, 18, fetch_body())
    (event,) = desk.received()
    response = FetchResponse(
        error=0, epoch=Epoch(3), leader_id=NodeId(1), high_watermark=Offset(4), log_start_offset=Offset(0)
    )
    desk.inbound.reply(event.request_id, response, is_watched=True)
    if ends:
        desk.inbound.on_closed(ONE)
    else:
        desk.vote()
    assert desk.inbound.leaving() == []


def test_how_much_of_an_answer_has_come_is_told_while_it_is_awaited() -> None:
    desk = Dialing()
    correlation_id = desk.send()
    assert desk.peers.arriving() == [], "nothing is asked yet"
    connection = desk.connect()
    assert desk.peers.arriving() == []
    desk.ports.received[connection] = (300, 1_000)
    (there,) = desk.peers.arriving()
    assert (there.peer_id, there.correlation_id) == (2, correlation_id)
    assert (there.received_bytes, there.size_bytes) == (300, 1_000)
    desk.peers.on_frame(connection, vote_answer(wire_id=1))
    assert desk.peers.arriving() == [], "nothing is awaited any more"


class Consumers:
    """Kafka's clients: their Fetches wait, and no other request is one of theirs."""

    def __init__(self) -> None:
        self.waiting: list[Body] = []
        self.gone: list[Body] = []

    def serves(self, api_key: int, body: Body) -> bool:
        return api_key == ApiKey.FETCH and body["replica_state"]["replica_id"] < 0

    def handle(self, _key: int, _version: int, body: Body, *_: object) -> Callable[[], object]:
        self.waiting.append(body)
        return lambda: self.gone.append(body)

    def refuse_too_large(self, _header: RequestHeader, _data: CutFrame) -> Body:
        raise AssertionError("no request is cut here")

    def describe_brokers(self, _listener: str) -> Body:
        return {}

    def replica_fetched(self, request: FetchRequest, software: str | None) -> None:
        """See `Clients`."""


def test_a_listener_of_clients_takes_nothing_from_replicas() -> None:
    consumers = Consumers()
    desk = Desk(clients=consumers, controller_listeners=("ANOTHER",))
    forged = fetch_body() | {"replica_state": {"replica_id": 2, "replica_epoch": 1}}
    desk.ask(ApiKey.FETCH, 17, forged)
    assert len(consumers.waiting) == 1, "a consumer's Fetch or not: no replica is behind it"
    assert desk.received() == []
    desk.vote()
    assert desk.received() == []
    assert desk.ports.closed == [ONE], "as Kafka's brokers do"


def test_a_client_hears_that_nobody_waits_for_its_answer_any_more() -> None:
    consumers = Consumers()
    desk = Desk(clients=consumers)
    desk.ask(ApiKey.FETCH, 17, fetch_body())
    desk.inbound.on_closed(ONE)
    assert consumers.gone == consumers.waiting
    assert desk.inbox.take() is None


def test_a_cut_request_is_answered_if_it_is_a_producers_and_closes_its_connection_otherwise() -> None:
    class Producers(Consumers):
        """Refuses what is too large."""

        def refuse_too_large(self, _header: RequestHeader, _data: CutFrame) -> Body:
            return {"responses": []}

    for clients, key, is_answered in (
        (Producers(), ApiKey.PRODUCE, True),
        (Producers(), ApiKey.METADATA, False),
        (None, ApiKey.PRODUCE, False),
    ):
        desk = Desk(clients=clients)
        raw = b"".join(bytes(part) for part in encode_request(key, 9, 5, "p", {}))
        desk.inbound.on_frame(ONE, CutFrame(raw))
        assert len(desk.ports.sent) == is_answered
        assert (desk.ports.closed == []) == is_answered
