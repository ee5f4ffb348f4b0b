"""DescribeQuorum through its versions."""

from dataclasses import replace

import pytest

from pykraft.config import METADATA_TOPIC_NAME
from pykraft.core.messages import DescribedReplica, DescribeQuorumRequest, DescribeQuorumResponse, TopLevelError
from pykraft.errors import ErrorCode, ProtocolError
from pykraft.protocol.api import ApiKey, Body, RequestHeader, decode_response
from pykraft.rpc import codec
from pykraft.rpc.context import Refusal
from pykraft.types import Epoch, NodeId, Offset, ReplicaKey, Voter
from tests.rpc.wires import CONTEXT, KEY_2, KEY_3, TWO_LISTENERS, asked, body_of, receive, replied, sent

KEY = ApiKey.DESCRIBE_QUORUM
RESPONSE = DescribeQuorumResponse(
    error=0,
    leader_id=NodeId(2),
    epoch=Epoch(4),
    high_watermark=Offset(9),
    voters=(DescribedReplica(key=KEY_2, log_end_offset=10, last_fetch_timestamp=5, last_caught_up_timestamp=4),),
    observers=(DescribedReplica(key=KEY_3, log_end_offset=-1, last_fetch_timestamp=-1, last_caught_up_timestamp=-1),),
    nodes=(Voter(key=ReplicaKey(NodeId(2)), listeners=TWO_LISTENERS),),
)


@pytest.mark.conformance(100)
@pytest.mark.parametrize("version", [0, 1, 2])
def test_requests(version: int) -> None:
    assert sent(DescribeQuorumRequest(), version) == DescribeQuorumRequest()


@pytest.mark.conformance(98, 100)
def test_version_2_carries_everything() -> None:
    assert replied(KEY, 2, RESPONSE) == RESPONSE


@pytest.mark.conformance(98, 100)
def test_older_versions_carry_less() -> None:
    found = replied(KEY, 1, RESPONSE)
    assert found.nodes == ()
    assert found.voters[0] == replace(RESPONSE.voters[0], key=ReplicaKey(NodeId(2)))
    assert replied(KEY, 0, RESPONSE).voters[0].last_fetch_timestamp == -1


def test_an_error_with_its_message() -> None:
    message = DescribeQuorumResponse(error=6, error_message="not here")
    assert replied(KEY, 2, message) == message
    assert replied(KEY, 1, message) == replace(message, error_message=None)


def test_a_node_that_does_not_lead_says_so_and_its_numbers_are_0() -> None:
    header = RequestHeader(KEY, 2, 1, None, 0)
    raw = b"".join(codec.encode_answer(header, DescribeQuorumResponse(error=6), CONTEXT))
    [topic] = decode_response(KEY, 2, raw)[1]["topics"]
    [partition] = topic["partitions"]
    assert "does not lead" in partition["error_message"]
    assert {partition[key] for key in ("leader_id", "leader_epoch", "high_watermark")} == {0}
    assert (partition["current_voters"], partition["observers"]) == ([], [])


def test_anything_but_our_one_partition_is_unknown_in_every_partition_it_names() -> None:
    (topic,) = body_of(DescribeQuorumRequest(), 2)["topics"]
    other = {"topic_name": "t", "partitions": [{"partition_index": 0}, {"partition_index": 7}]}
    refused = asked(KEY, 2, {"topics": [topic, other]})
    assert isinstance(refused, Refusal)
    assert refused.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    names = [
        (one["topic_name"], part["partition_index"], part["error_code"])
        for one in refused.body["topics"]
        for part in one["partitions"]
    ]
    assert names == [(topic["topic_name"], 0, 3), ("t", 0, 3), ("t", 7, 3)]
    assert asked(KEY, 2, {"topics": []}) == Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, {"topics": []})


def test_kafkas_name_for_the_topic_is_ours_too_and_is_repeated() -> None:
    body: Body = {"topics": [{"topic_name": METADATA_TOPIC_NAME, "partitions": [{"partition_index": 0}]}]}
    asked_by_tool = asked(KEY, 2, body)
    assert asked_by_tool == DescribeQuorumRequest(asked_as=METADATA_TOPIC_NAME)
    assert sent(asked_by_tool, 2) == asked_by_tool
    header = RequestHeader(KEY, 2, 1, None, 0)
    raw = b"".join(codec.encode_answer(header, replace(RESPONSE, asked_as=METADATA_TOPIC_NAME), CONTEXT))
    assert decode_response(KEY, 2, raw)[1]["topics"][0]["topic_name"] == METADATA_TOPIC_NAME


def test_kafkas_name_is_taken_for_our_one_partition_only() -> None:
    body: Body = {"topics": [{"topic_name": METADATA_TOPIC_NAME, "partitions": [{"partition_index": 1}]}]}
    assert isinstance(asked(KEY, 2, body), Refusal)


def test_answers_are_for_us_or_an_error() -> None:
    assert receive(KEY, 2, {"error_code": -1}) == TopLevelError(error=-1)
    with pytest.raises(ProtocolError):
        receive(KEY, 2, {})
