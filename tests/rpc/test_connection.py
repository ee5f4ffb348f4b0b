"""A dialed connection: it negotiates first, has one request open, and accepts only that request's answer."""

import struct

import pytest

from pykraft import __version__
from pykraft.core.messages import FetchRequest, VoteRequest, VoteResponse
from pykraft.errors import ErrorCode, ProtocolError
from pykraft.protocol.api import decode_request_body, decode_request_header, encode_response, frame
from pykraft.protocol.messages import ApiKey
from pykraft.rpc.connection import ANSWER_SIZE_BYTES_MAX, FIRST_ANSWER_SIZE_BYTES_MAX, DialedConnection
from pykraft.types import Buffer, Epoch, NodeId, Offset, OffsetAndEpoch, ReplicaKey
from tests.host.fakes import CONTEXT, TOPIC_ID

ALL = {ApiKey.VOTE: (0, 2), ApiKey.FETCH: (4, 18)}


def dialed() -> DialedConnection:
    return DialedConnection("raft-client-1")


def vote(*, pre_vote: bool = False) -> VoteRequest:
    return VoteRequest(
        epoch=Epoch(3),
        candidate=ReplicaKey(NodeId(1)),
        voter=ReplicaKey(NodeId(2)),
        last=OffsetAndEpoch(Offset(5), Epoch(2)),
        pre_vote=pre_vote,
    )


def fetch() -> FetchRequest:
    return FetchRequest(
        replica=ReplicaKey(NodeId(1)),
        epoch=Epoch(3),
        fetch_offset=Offset(0),
        last_fetched_epoch=Epoch(0),
        wait_ms_max=500,
        size_bytes_max=100,
        high_watermark=-1,
    )


def content(parts: list[Buffer]) -> bytes:
    """A frame without its length."""
    return b"".join(bytes(part) for part in parts)[4:]


def versions_answer(versions: dict[ApiKey, tuple[int, int]], *, wire_id: int = 0, error: int = 0) -> bytes:
    keys = [{"api_key": key, "min_version": low, "max_version": high} for key, (low, high) in versions.items()]
    parts = encode_response(ApiKey.API_VERSIONS, 3, wire_id, {"error_code": error, "api_keys": keys})
    return b"".join(bytes(part) for part in parts)


def vote_answer(*, wire_id: int, version: int = 2) -> bytes:
    partition = {"partition_index": 0, "error_code": 0, "leader_id": -1, "leader_epoch": 3, "vote_granted": True}
    topics = [{"topic_name": CONTEXT.topic_name, "partitions": [partition]}]
    parts = encode_response(ApiKey.VOTE, version, wire_id, {"topics": topics})
    return b"".join(bytes(part) for part in parts)


def fetch_answer(records: Buffer, *, wire_id: int, diverging_offset: int = -1) -> bytes:
    partition = {
        "diverging_epoch": {"epoch": 1 if diverging_offset >= 0 else -1, "end_offset": diverging_offset},
        "partition_index": 0,
        "error_code": 0,
        "high_watermark": 1,
        "log_start_offset": 0,
        "current_leader": {"leader_id": 2, "leader_epoch": 3},
        "records": records,
    }
    body = {"responses": [{"topic_id": TOPIC_ID, "partitions": [partition]}]}
    return b"".join(bytes(part) for part in encode_response(ApiKey.FETCH, 18, wire_id, body))


def negotiated(versions: dict[ApiKey, tuple[int, int]] = ALL) -> DialedConnection:
    connection = dialed()
    connection.negotiate()
    connection.negotiated(versions_answer(versions))
    return connection


def test_it_asks_for_versions_first_and_says_what_it_is() -> None:
    connection = dialed()
    raw = content(connection.negotiate())
    header = decode_request_header(raw)
    assert (header.api_key, header.api_version, header.correlation_id) == (ApiKey.API_VERSIONS, 3, 0)
    assert header.client_id == "raft-client-1"
    body = decode_request_body(header, raw)
    assert (body["client_software_name"], body["client_software_version"]) == ("pykraft", __version__)
    assert not connection.is_negotiated


@pytest.mark.conformance(96)
def test_a_request_goes_out_in_the_newest_common_version_and_ids_count_up() -> None:
    connection = negotiated({ApiKey.VOTE: (0, 1), ApiKey.FETCH: (4, 99)})
    assert connection.is_ready
    header = decode_request_header(content(connection.ask(vote(), CONTEXT)))
    assert (header.api_key, header.api_version, header.correlation_id) == (ApiKey.VOTE, 1, 1)
    assert not connection.is_ready
    answer = connection.answered(vote_answer(wire_id=1, version=1), CONTEXT)
    assert isinstance(answer.message, VoteResponse)
    assert answer.message.vote_granted
    header = decode_request_header(content(connection.ask(fetch(), CONTEXT)))
    assert (header.api_key, header.api_version, header.correlation_id) == (ApiKey.FETCH, 18, 2)


@pytest.mark.conformance(66, 96)
def test_a_pre_vote_needs_version_2_and_the_connection_stays_usable_without() -> None:
    connection = negotiated({ApiKey.VOTE: (0, 1)})
    with pytest.raises(ProtocolError) as raised:
        connection.ask(vote(pre_vote=True), CONTEXT)
    assert raised.value.code == ErrorCode.UNSUPPORTED_VERSION
    assert connection.is_ready
    assert decode_request_header(content(connection.ask(vote(), CONTEXT))).correlation_id == 1


@pytest.mark.parametrize("versions", [{}, {ApiKey.FETCH: (0, 3)}, {ApiKey.FETCH: (19, 25)}])
def test_without_a_common_version_there_is_nothing_to_ask(versions: dict[ApiKey, tuple[int, int]]) -> None:
    connection = negotiated(versions)
    with pytest.raises(ProtocolError) as raised:
        connection.ask(fetch(), CONTEXT)
    assert raised.value.code == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize(
    "answer",
    [
        versions_answer(ALL, wire_id=1),
        versions_answer(ALL, error=35),
        b"",
        b"\0\0\0\0",
        versions_answer(ALL)[:-1],
        versions_answer(ALL) + b"x",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
    ],
)
def test_a_bad_answer_to_the_negotiation_ends_the_connection(answer: bytes) -> None:
    connection = dialed()
    connection.negotiate()
    with pytest.raises(ProtocolError):
        connection.negotiated(answer)
    assert not connection.is_ready


@pytest.mark.conformance(96, 97, "H30")
def test_an_answer_with_another_id_is_refused() -> None:
    connection = negotiated()
    connection.ask(vote(), CONTEXT)
    with pytest.raises(ProtocolError, match="it answers request 7, expected 1"):
        connection.answered(vote_answer(wire_id=7), CONTEXT)


def test_an_answer_without_a_question_is_refused() -> None:
    with pytest.raises(ProtocolError, match="a response that answers no request"):
        negotiated().answered(vote_answer(wire_id=1), CONTEXT)


def test_a_body_of_another_api_goes_the_same_way() -> None:
    connection = negotiated({ApiKey.DESCRIBE_CLUSTER: (0, 0)})
    header = decode_request_header(content(connection.ask_body(ApiKey.DESCRIBE_CLUSTER, {})))
    assert (header.api_key, header.api_version, header.correlation_id) == (ApiKey.DESCRIBE_CLUSTER, 0, 1)
    answer = b"".join(encode_response(ApiKey.DESCRIBE_CLUSTER, 0, 1, {"cluster_id": "c", "controller_id": 3}))
    assert connection.answered_body(answer)["controller_id"] == 3
    connection.ask_body(ApiKey.DESCRIBE_CLUSTER, {})
    with pytest.raises(ProtocolError, match="it answers request 1, expected 2"):
        connection.answered_body(answer)
    with pytest.raises(ProtocolError, match="no common version of FETCH"):
        connection.ask_body(ApiKey.FETCH, {})


def test_what_the_other_end_offers_is_known_after_the_negotiation() -> None:
    assert not dialed().offers(vote())
    connection = negotiated({ApiKey.VOTE: (9, 9)})
    assert connection.offers(vote())
    assert not connection.offers(fetch())
    with pytest.raises(ProtocolError, match="no common version of VOTE"):
        connection.version_of(ApiKey.VOTE)


def test_a_stream_completes_the_answer_piece_by_piece() -> None:
    connection = negotiated()
    connection.ask(vote(), CONTEXT)
    stream = b"".join(frame([vote_answer(wire_id=1)]))
    assert [connection.received(stream[at : at + 1]) for at in range(len(stream) - 1)] == [None] * (len(stream) - 1)
    found = connection.received(stream[-1:])
    assert found is not None
    assert connection.answered(found, CONTEXT).correlation_id == 1
    with pytest.raises(ProtocolError, match="more than one answer"):
        connection.received(stream * 2)


def test_the_rest_of_a_large_answer_may_be_received_in_its_place() -> None:
    connection = negotiated()
    connection.ask(vote(), CONTEXT)
    data = bytes(1_000_000)
    stream = b"".join(frame([data]))
    assert connection.room() is None
    assert connection.received(stream[:500_000]) is None
    at = 500_000
    while (room := connection.room()) is not None:
        size_bytes = min(len(room), len(stream) - at)
        room[:size_bytes] = stream[at : at + size_bytes]
        at += size_bytes
        assert connection.filled(size_bytes) is None
    assert 500_000 < at < len(stream)
    found = connection.received(stream[at:])
    assert found is not None
    assert bytes(found) == data


@pytest.mark.parametrize("is_negotiated", [False, True])
def test_only_a_node_that_speaks_kafkas_protocol_may_send_large_answers(*, is_negotiated: bool) -> None:
    bound = ANSWER_SIZE_BYTES_MAX if is_negotiated else FIRST_ANSWER_SIZE_BYTES_MAX
    connection = negotiated() if is_negotiated else dialed()
    assert connection.received(struct.pack(">i", bound)) is None
    connection = negotiated() if is_negotiated else dialed()
    with pytest.raises(ProtocolError, match=f"allowed are 1 to {bound}"):
        connection.received(struct.pack(">i", bound + 1))
