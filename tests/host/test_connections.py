"""A dialed connection: it negotiates first, has one question open, and accepts only that question's answer.

Source: KIP-35, KIP-511; Kafka's ``NetworkClient``.
"""

from __future__ import annotations

import pytest

from pykraft import __version__
from pykraft.core.messages import FetchRequest, VoteRequest, VoteResponse
from pykraft.errors import ErrorCode, ProtocolError
from pykraft.host.connections import DialedConnection
from pykraft.host.ports import ConnectionId
from pykraft.protocol.api import decode_request_body, decode_request_header, encode_response
from pykraft.protocol.messages import ApiKey
from pykraft.types import Buffer, Epoch, NodeId, Offset, OffsetAndEpoch, ReplicaKey
from tests.host.fakes import CONTEXT, endpoint

ALL = {ApiKey.VOTE: (0, 2), ApiKey.FETCH: (4, 18)}


def dialed() -> DialedConnection:
    return DialedConnection(ConnectionId(1), endpoint(2), client_id="raft-client-1", context=CONTEXT, begun_ms=0)


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


def negotiated(versions: dict[ApiKey, tuple[int, int]] = ALL) -> DialedConnection:
    connection = dialed()
    connection.negotiate()
    assert connection.answered(versions_answer(versions)) is None
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
    header = decode_request_header(content(connection.ask(vote())))
    assert (header.api_key, header.api_version, header.correlation_id) == (ApiKey.VOTE, 1, 1)
    assert not connection.is_ready
    answer = connection.answered(vote_answer(wire_id=1, version=1))
    assert answer is not None
    assert isinstance(answer.message, VoteResponse)
    assert answer.message.vote_granted
    header = decode_request_header(content(connection.ask(fetch())))
    assert (header.api_key, header.api_version, header.correlation_id) == (ApiKey.FETCH, 18, 2)


@pytest.mark.conformance(66, 96)
def test_a_pre_vote_needs_version_2_and_the_connection_stays_usable_without() -> None:
    connection = negotiated({ApiKey.VOTE: (0, 1)})
    with pytest.raises(ProtocolError) as raised:
        connection.ask(vote(pre_vote=True))
    assert raised.value.code == ErrorCode.UNSUPPORTED_VERSION
    assert connection.is_ready
    assert decode_request_header(content(connection.ask(vote()))).correlation_id == 1


@pytest.mark.parametrize("versions", [{}, {ApiKey.FETCH: (0, 3)}, {ApiKey.FETCH: (19, 25)}])
def test_without_a_common_version_there_is_nothing_to_ask(versions: dict[ApiKey, tuple[int, int]]) -> None:
    connection = negotiated(versions)
    with pytest.raises(ProtocolError) as raised:
        connection.ask(fetch())
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
        connection.answered(answer)
    assert not connection.is_ready


@pytest.mark.conformance(96, 97, "H30")
def test_an_answer_with_another_id_is_refused() -> None:
    connection = negotiated()
    connection.ask(vote())
    with pytest.raises(ProtocolError, match="it answers request 7, expected 1"):
        connection.answered(vote_answer(wire_id=7))


def test_an_answer_without_a_question_is_refused() -> None:
    with pytest.raises(ProtocolError, match="a response that answers no request"):
        negotiated().answered(vote_answer(wire_id=1))
