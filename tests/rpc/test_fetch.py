"""Fetch of replicas in every version that can express it."""

from dataclasses import replace
from typing import Any

import pytest

from pykraft.core.messages import FetchRequest, FetchResponse, TopLevelError
from pykraft.errors import ErrorCode, ProtocolError
from pykraft.protocol.api import ApiKey
from pykraft.rpc import fetch
from pykraft.rpc.context import Refusal
from pykraft.types import NO_LISTENERS, Endpoint, Epoch, Listeners, NodeId, Offset, OffsetAndEpoch, ReplicaKey
from tests.rpc.wires import CONTEXT, KEY_2, LEADER, answered, asked, body_of, receive, replied, sent

KEY = ApiKey.FETCH
REQUEST = FetchRequest(
    replica=KEY_2,
    epoch=Epoch(3),
    fetch_offset=Offset(7),
    last_fetched_epoch=Epoch(2),
    wait_ms_max=500,
    size_bytes_max=1_048_576,
    high_watermark=-1,
)
RESPONSE = FetchResponse(
    error=0, epoch=Epoch(3), leader_id=NodeId(1), high_watermark=Offset(5), log_start_offset=Offset(0), listeners=LEADER
)


@pytest.mark.conformance(41, 100)
def test_version_18_carries_everything() -> None:
    for high_watermark in (None, -1, 0, 2**40):
        message = replace(REQUEST, high_watermark=high_watermark)
        assert sent(message, 18) == message


@pytest.mark.conformance(41, 96, 100)
def test_older_versions_carry_less() -> None:
    assert sent(REQUEST, 17) == replace(REQUEST, high_watermark=None)
    for version in (13, 14, 15, 16):
        assert sent(REQUEST, version) == replace(REQUEST, high_watermark=None, replica=ReplicaKey(NodeId(2)))


@pytest.mark.conformance(53)
@pytest.mark.parametrize("version", [13, 14, 15, 18])
def test_an_observer_may_have_no_id(version: int) -> None:
    assert sent(replace(REQUEST, replica=None), version).replica is None


@pytest.mark.parametrize("version", [13, 14, 15, 18])
def test_who_wants_committed_records_only_says_so_as_a_consumer_does(version: int) -> None:
    message = replace(REQUEST, is_committed_only=True)
    assert sent(message, version).is_committed_only
    assert body_of(message, version)["isolation_level"] == 1
    assert body_of(REQUEST, version)["isolation_level"] == 0


@pytest.mark.conformance(100)
def test_the_body_is_that_of_a_kafka_replica() -> None:
    body = body_of(REQUEST, 18)
    assert (body["min_bytes"], body["session_id"], body["session_epoch"], body["rack_id"]) == (0, 0, -1, "")
    (partition,) = body["topics"][0]["partitions"]
    assert (partition["log_start_offset"], partition["partition_max_bytes"]) == (-1, 0)


@pytest.mark.conformance(41)
def test_below_version_13_the_topic_has_no_id_and_is_refused() -> None:
    body = body_of(REQUEST, 13)
    for version in (4, 11, 12):
        partition = {"fetch_offset": 0}
        topics = [{"topic": CONTEXT.topic_name, "partitions": [partition]}]
        refused = asked(KEY, version, {**body, "topics": topics, "cluster_id": None, "replica_id": 2})
        assert refused == Refusal(ErrorCode.INVALID_REQUEST, {"error_code": ErrorCode.INVALID_REQUEST})


@pytest.mark.conformance(33, 40)
@pytest.mark.parametrize("change", ["cluster", "topic id", "partition", "no topic", "two partitions"])
def test_what_is_not_for_us_is_refused_above_the_partition(change: str) -> None:
    body = body_of(REQUEST, 18)
    (topic,) = body["topics"]
    (partition,) = topic["partitions"]
    changes: dict[str, dict[str, Any]] = {
        "cluster": {"cluster_id": "x", "topics": []},
        "topic id": {"topics": [{**topic, "topic_id": bytes(16)}]},
        "partition": {"topics": [{**topic, "partitions": [{**partition, "partition": 1}]}]},
        "no topic": {"topics": []},
        "two partitions": {"topics": [{**topic, "partitions": [partition, partition]}]},
    }
    error = ErrorCode.INCONSISTENT_CLUSTER_ID if change == "cluster" else ErrorCode.INVALID_REQUEST
    assert asked(KEY, 18, {**body, **changes[change]}) == Refusal(error, {"error_code": error})


@pytest.mark.conformance(98, 100)
def test_answers_name_the_leaders_endpoint_from_version_17_on() -> None:
    for version in (17, 18):
        assert replied(KEY, version, RESPONSE) == RESPONSE
    for version in (13, 16):
        assert replied(KEY, version, RESPONSE) == replace(RESPONSE, listeners=NO_LISTENERS)


@pytest.mark.parametrize(
    "message",
    [
        replace(RESPONSE, diverging=OffsetAndEpoch(Offset(4), Epoch(2))),
        replace(RESPONSE, snapshot_id=OffsetAndEpoch(Offset(8), Epoch(0))),
        replace(RESPONSE, error=74, high_watermark=None, log_start_offset=Offset(-1)),
        replace(RESPONSE, error=6, leader_id=None, listeners=NO_LISTENERS),
        replace(RESPONSE, diverging=OffsetAndEpoch(Offset(-1), Epoch(2))),
        replace(RESPONSE, snapshot_id=OffsetAndEpoch(Offset(8), Epoch(-1))),
    ],
)
def test_all_kinds_of_answers(message: FetchResponse) -> None:
    assert replied(KEY, 18, message) == message


def test_a_leader_with_a_port_that_is_none_is_not_told() -> None:
    far = Listeners((("CONTROLLER", Endpoint("h", 70_000)),))
    assert replied(KEY, 18, replace(RESPONSE, listeners=far)).listeners == NO_LISTENERS


@pytest.mark.parametrize("records", [b"", b"records", b"r" * 5000])
def test_records_travel_beside_the_message(records: bytes) -> None:
    answer = answered(KEY, 18, RESPONSE, records)
    assert answer.message == RESPONSE
    assert answer.records == records


def test_null_records_read_as_empty() -> None:
    body = fetch.response_to_wire(RESPONSE, 18, CONTEXT)
    body["responses"][0]["partitions"][0]["records"] = None
    assert fetch.records_of(body, CONTEXT) == b""


def test_answers_are_for_us_or_an_error() -> None:
    assert receive(KEY, 18, {"error_code": 42}) == TopLevelError(error=42)
    assert answered(KEY, 18, TopLevelError(error=42)).records == b""
    for responses in ([], [{"topic_id": bytes(16), "partitions": [{}]}]):
        with pytest.raises(ProtocolError, match="not about partition"):
            receive(KEY, 18, {"responses": responses})
