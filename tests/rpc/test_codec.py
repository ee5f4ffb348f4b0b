"""The table of RPCs, and Kafka's own frames through it.

Source: Kafka's ApiKeys and RaftUtil.
"""

import contextlib
import random
import re
from pathlib import Path
from typing import Any, get_args

import pytest

from pykraft.core import messages
from pykraft.core.messages import FetchResponse, TopLevelError
from pykraft.errors import ErrorCode, ProtocolError
from pykraft.protocol.api import (
    API_VERSIONS,
    ApiKey,
    RequestHeader,
    decode_request_body,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)
from pykraft.protocol.messages import APIS
from pykraft.protocol.primitives import UNKNOWN_TAGS, encode_compact_size
from pykraft.protocol.schema import ARRAY_COUNT_MAX, Array, Body, Kind, Struct, fields_of, tagged_fields_of
from pykraft.rpc import codec
from pykraft.rpc.context import Refusal, RpcContext
from pykraft.rpc.fetched import read_batches
from pykraft.types import NodeId, Uuid
from tests.core.replicas import key as replica_key
from tests.core.said import add_voter, begin, end, fetch, fetch_snapshot, update_voter, vote
from tests.memory import taking_less_than
from tests.processes.rpc_edges import plain
from tests.rpc.wires import CONTEXT, answered, asked, body_of, receive

GOLDEN = Path(__file__).parent.parent / "golden"
FILES = [path for path in sorted(GOLDEN.glob("*/frames/*.txt")) if int(path.name.split("-")[0]) in codec.RPCS]
CLUSTER_IDS = {
    "static": "4S55zmMtQNag8xbhqc7CTQ",
    "dynamic": "1OvTGIWWQja7V48VYOvAtg",
    "raft": "AAAAAAAAAAAAAAAAAAAAAA",
}


def file_id(path: Path) -> str:
    return f"{path.parent.parent.name}/{path.stem}"


def load(path: Path) -> tuple[bytes, bytes]:
    frames = dict(re.findall(r"^(request|response) (\w+)$", path.read_text(), re.MULTILINE))
    return bytes.fromhex(frames["request"])[4:], bytes.fromhex(frames["response"])[4:]


def context_of(path: Path) -> RpcContext:
    recording = path.parent.parent.name
    is_raft = recording == "raft"
    return RpcContext(
        cluster_id=CLUSTER_IDS[recording],
        topic_name="__raft_performance_test" if is_raft else "__cluster_metadata",
        topic_id=Uuid(bytes(15) + (b"\2" if is_raft else b"\1")),
        default_listener="CONTROLLER",
    )


def test_every_request_of_the_core_has_its_rpc() -> None:
    types = {rpc.request_type for rpc in codec.QUESTIONS.values()}
    assert types == set(messages.Request.__args__)
    for key, rpc in codec.QUESTIONS.items():
        assert codec.QUESTIONS[codec._KEYS[rpc.request_type]] is codec.QUESTIONS[key]


@pytest.mark.conformance(100)
@pytest.mark.parametrize("path", FILES, ids=file_id)
def test_kafkas_requests_become_messages_and_the_same_bytes_again(path: Path) -> None:
    raw, _ = load(path)
    context = context_of(path)
    header = decode_request_header(raw)
    message = codec.decode_request(header, raw, context)
    if isinstance(message, Refusal):  # a consumer or broker fetches another topic
        assert header.api_key == ApiKey.FETCH
        assert message.error == ErrorCode.INVALID_REQUEST
        return
    assert codec.api_key_of(message) == header.api_key
    assert header.client_id is not None
    again = codec.encode_request(message, header.api_version, header.correlation_id, header.client_id, context)
    if decode_request_body(header, raw).get("cluster_id", "") is None:
        return  # Kafka's tools name no cluster, we do
    assert b"".join(again) == raw


@pytest.mark.conformance(100)
@pytest.mark.parametrize("path", FILES, ids=file_id)
def test_kafkas_answers_become_messages_and_the_same_bytes_again(path: Path) -> None:
    request, raw = load(path)
    context = context_of(path)
    header = decode_request_header(request)
    if isinstance(codec.decode_request(header, request, context), Refusal):
        return
    key, version = ApiKey(header.api_key), header.api_version
    answer = codec.decode_answer(key, version, raw, context)
    assert answer.correlation_id == header.correlation_id
    if isinstance(answer.message, TopLevelError):
        assert decode_response(key, version, raw)[1]["error_code"] == answer.message.error
        return
    again = codec.encode_answer(header, answer.message, context, bytes(answer.records))
    assert b"".join(again) == raw
    if isinstance(answer.message, FetchResponse):
        assert read_batches(answer.records).invalid is None


@pytest.mark.parametrize("path", FILES[::3], ids=file_id)
def test_frames_that_were_tampered_with_are_answered_or_the_peers_fault(path: Path) -> None:
    request, response = load(path)
    context = context_of(path)
    header = decode_request_header(request)
    chance = random.Random(path.stem)
    for _ in range(60):
        try:
            found = codec.decode_request(header, tampered(request, chance), context)
            if isinstance(found, Refusal):
                codec.encode_answer(header, found, context)
        except ProtocolError:
            pass
        with contextlib.suppress(ProtocolError):
            codec.decode_answer(ApiKey(header.api_key), header.api_version, tampered(response, chance), context)


def tampered(raw: bytes, chance: random.Random) -> bytes:
    """A frame with one byte changed, and sometimes another length."""
    changed = bytearray(raw)
    changed[chance.randrange(len(changed))] = chance.randrange(256)
    return bytes(changed[: chance.randrange(len(changed))] if chance.random() < 0.2 else changed)


def test_a_refusal_is_written_as_it_is() -> None:
    body = {"error_code": ErrorCode.INCONSISTENT_CLUSTER_ID}
    answer = answered(ApiKey.VOTE, 2, Refusal(ErrorCode.INCONSISTENT_CLUSTER_ID, body))
    assert answer.message == TopLevelError(error=104)


@pytest.mark.parametrize("key", codec.RPCS)
def test_an_error_above_the_partition_can_be_written_for_every_rpc(key: int) -> None:
    header = RequestHeader(key, API_VERSIONS[ApiKey(key)].max, 9, None, 0)
    raw = b"".join(codec.encode_answer(header, TopLevelError(error=8), CONTEXT))
    expected = encode_response(key, header.api_version, 9, {"error_code": 8})
    assert raw == b"".join(expected)


WITH_CLUSTER_ID: list[messages.Request] = [
    *(make() for make in (vote, begin, end, fetch, fetch_snapshot, add_voter, update_voter)),
    messages.RemoveVoterRequest(voter=replica_key(3)),
    messages.TransferLeadershipRequest(target_id=NodeId(3), timeout_ms=9),
]
WITHOUT_CLUSTER_ID = {messages.DescribeQuorumRequest, messages.ApiVersionsRequest, messages.UpdateFeaturesRequest}


@pytest.mark.conformance(33)
@pytest.mark.parametrize("message", WITH_CLUSTER_ID, ids=lambda message: type(message).__name__)
def test_the_cluster_id_is_ours_or_not_named_in_every_request_that_has_one(message: messages.Request) -> None:
    api_key = codec.api_key_of(message)
    version = API_VERSIONS[api_key].max
    body = body_of(message, version)
    for cluster_id in (CONTEXT.cluster_id, None):
        assert type(asked(api_key, version, {**body, "cluster_id": cluster_id})) is type(message)
    for cluster_id in ("", "x", "AAAAAAAAAAAAAAAAAAAAAB"):
        refused = asked(api_key, version, {**body, "cluster_id": cluster_id})
        # The answer to UpdateRaftVoter names the leader, so the core gives it.
        assert isinstance(refused, Refusal | messages.UpdateVoterRequest)
        assert refused.error == ErrorCode.INCONSISTENT_CLUSTER_ID


def test_every_request_that_has_a_cluster_id_is_in_that_list() -> None:
    listed = {type(message) for message in WITH_CLUSTER_ID}
    assert listed == set(get_args(messages.Request)) - WITHOUT_CLUSTER_ID


def test_a_request_of_more_topics_than_the_one_is_refused_as_kafka_does() -> None:
    body = body_of(vote(), 2)
    for key, version in ((ApiKey.VOTE, 2), (ApiKey.VOTE, 0)):
        assert asked(key, version, {**body, "topics": body["topics"] * 2}) == Refusal(
            ErrorCode.INVALID_REQUEST, {"error_code": ErrorCode.INVALID_REQUEST}
        )


REQUESTS = [
    (ApiKey(key), version)
    for key, api in APIS.items()
    for version in range(api.request.versions.min, api.request.versions.max + 1)
]
REQUEST_COST_FACTOR_MAX = 4
REQUEST_COST_BYTES_MIN = 64 * 1024
"""What the dicts and small values of the partitions, endpoints and members take, however short their frame is."""


ELEMENTS_MAX = 5_000
"""Arrays within arrays: their elements cost the same each, and a hundred times as many would take minutes."""


def most_of(kind: Kind | Struct | Array, version: int, text: str, room: int = ELEMENTS_MAX) -> Any:
    """A value with as many elements as its arrays may have, this text in each string, and tags that nobody knows."""
    match kind:
        case Struct():
            fields = [*fields_of(kind, version), *tagged_fields_of(kind, version)]
            body: Body = {one.name: most_of(one.kind, version, text, room) for one in fields}
            return {**body, UNKNOWN_TAGS: {1_000 + number: b"" for number in range(100)}}
        case Array():
            assert kind.count_max < ARRAY_COUNT_MAX, "what whoever connects can send is bounded"
            count = min(kind.count_max, room)
            return [most_of(kind.of, version, text, max(1, room // count))] * count
        case Kind.STRING:
            return text
        case Kind.UUID:
            return b"u" * 16
        case Kind.BOOL:
            return True
        case Kind.RECORDS | Kind.BYTES:
            return text.encode()
        case _:
            return 77


@pytest.mark.no_cover  # it would take twice as long, and other tests reach the same
@pytest.mark.parametrize("text", ["", "h", "ab\U0001f600" * 80], ids=["empty", "short", "wide"])
@pytest.mark.parametrize(("key", "version"), REQUESTS)
def test_a_decoded_request_costs_a_bounded_multiple_of_its_frame(key: ApiKey, version: int, text: str) -> None:
    schema = APIS[key].request
    body = most_of(schema.body, version, text)
    if version not in schema.flexible:
        del body[UNKNOWN_TAGS]
    raw = b"".join(encode_request(key, version, 1, None, body))
    header = decode_request_header(raw)
    decode_request_body(header, raw)
    most_bytes = REQUEST_COST_FACTOR_MAX * len(raw) + REQUEST_COST_BYTES_MIN
    assert taking_less_than(most_bytes, lambda: decode_request_body(header, raw))


@pytest.mark.parametrize("version", [0, 2])
def test_a_vote_of_a_million_empty_topics_costs_nothing(version: int) -> None:
    head = b"".join(encode_request(ApiKey.VOTE, version, 1, None, {"topics": []}))
    cluster_id_and_voter = head[decode_request_header(head).body_position : -2]
    count = 1_000_000
    raw = head[: decode_request_header(head).body_position] + cluster_id_and_voter + encode_compact_size(count)
    raw += b"\1\1\0" * count
    codec.decode_request(decode_request_header(head), head, CONTEXT)  # what is kept of a schema is made once
    answer = taking_less_than(
        REQUEST_COST_BYTES_MIN, lambda: codec.decode_request(decode_request_header(raw), raw, CONTEXT)
    )
    assert isinstance(answer, Refusal)
    assert answer.error == ErrorCode.INVALID_REQUEST


CLUSTERED = [key for key in map(ApiKey, codec.RPCS) if "cluster_id" in plain(APIS[key].request.body, 2)]
OF_A_PARTITION = [ApiKey.VOTE, ApiKey.BEGIN_QUORUM_EPOCH, ApiKey.END_QUORUM_EPOCH, ApiKey.FETCH_SNAPSHOT]


@pytest.mark.conformance(61)
@pytest.mark.parametrize("key", CLUSTERED)
@pytest.mark.parametrize("cluster_id", ["another", ""])
def test_another_cluster_is_refused_before_the_topic_is_read(key: ApiKey, cluster_id: str) -> None:
    versions = APIS[key].request.versions
    for version in range(versions.min, versions.max + 1):
        body = plain(APIS[key].request.body, version)
        if "cluster_id" in body:
            refused = asked(key, version, {**body, "cluster_id": cluster_id})
            assert isinstance(refused, Refusal | messages.UpdateVoterRequest)
            assert refused.error == ErrorCode.INCONSISTENT_CLUSTER_ID
            assert not isinstance(refused, Refusal) or refused.body["error_code"] == refused.error


@pytest.mark.parametrize("key", OF_A_PARTITION)
def test_anything_but_one_topic_is_refused_and_no_answer(key: ApiKey) -> None:
    version = APIS[key].request.versions.max
    topics = plain(APIS[key].request.body, version)["topics"]
    for count in (0, 2):
        refused = asked(key, version, {"cluster_id": None, "topics": topics * count})
        assert refused == Refusal(ErrorCode.INVALID_REQUEST, {"error_code": ErrorCode.INVALID_REQUEST})
    for code in (31, 104, 999):
        assert receive(key, version, {"error_code": code}) == TopLevelError(error=code)
    with pytest.raises(ProtocolError):
        receive(key, version, {})
