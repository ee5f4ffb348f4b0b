"""FetchSnapshot through both versions."""

from dataclasses import replace

import pytest

from pykraft.core.messages import FetchSnapshotRequest, FetchSnapshotResponse, TopLevelError
from pykraft.errors import ErrorCode, ProtocolError
from pykraft.protocol.api import ApiKey
from pykraft.rpc.context import Refusal
from pykraft.types import NO_LISTENERS, Epoch, NodeId, Offset, OffsetAndEpoch, ReplicaKey
from tests.rpc.wires import CONTEXT, KEY_2, LEADER, answered, asked, body_of, receive, replied, sent

KEY = ApiKey.FETCH_SNAPSHOT
REQUEST = FetchSnapshotRequest(
    replica=KEY_2, epoch=Epoch(3), snapshot_id=OffsetAndEpoch(Offset(9), Epoch(2)), position=2**33, size_bytes_max=1000
)
RESPONSE = FetchSnapshotResponse(
    error=0,
    epoch=Epoch(3),
    leader_id=NodeId(1),
    snapshot_id=OffsetAndEpoch(Offset(9), Epoch(2)),
    size_bytes=2**34,
    position=2**33,
    listeners=LEADER,
)


@pytest.mark.conformance(98, 100)
def test_version_1_carries_everything() -> None:
    assert sent(REQUEST, 1) == REQUEST
    assert sent(replace(REQUEST, replica=None), 1).replica is None
    assert replied(KEY, 1, RESPONSE) == RESPONSE


@pytest.mark.conformance(98, 100)
def test_version_0_carries_neither_directory_id_nor_endpoints() -> None:
    assert sent(REQUEST, 0) == replace(REQUEST, replica=ReplicaKey(NodeId(2)))
    assert replied(KEY, 0, RESPONSE) == replace(RESPONSE, listeners=NO_LISTENERS)


@pytest.mark.parametrize(("name", "index"), [("other", 0), (CONTEXT.topic_name, 1)])
def test_another_partition_is_unknown_within_the_partition_and_names_no_leader(name: str, index: int) -> None:
    body = body_of(REQUEST, 1)
    partition = {**body["topics"][0]["partitions"][0], "partition": index}
    refused = asked(KEY, 1, {**body, "topics": [{"name": name, "partitions": [partition]}]})
    answer = {"index": index, "error_code": 3, "snapshot_id": {"end_offset": 9, "epoch": 2}}
    assert refused == Refusal(
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, {"topics": [{"name": name, "partitions": [answer]}]}
    )


@pytest.mark.conformance(146)
def test_an_error_is_answered_with_empty_bytes_and_read_back() -> None:
    message = replace(RESPONSE, error=98, size_bytes=0, position=0)
    answer = answered(KEY, 1, message)
    assert answer.message == message
    assert answer.records == b""


def test_an_absent_leader_is_none() -> None:
    message = replace(RESPONSE, error=3, epoch=None, leader_id=None, listeners=NO_LISTENERS)
    assert replied(KEY, 1, message) == message


def test_the_snapshots_bytes_travel_beside_the_message() -> None:
    assert answered(KEY, 1, RESPONSE, b"s" * 700).records == b"s" * 700


def test_answers_are_for_us_or_an_error() -> None:
    assert receive(KEY, 1, {"error_code": 42}) == TopLevelError(error=42)
    with pytest.raises(ProtocolError, match="not about partition"):
        receive(KEY, 1, {"topics": [{"name": "other", "partitions": [{}]}]})
