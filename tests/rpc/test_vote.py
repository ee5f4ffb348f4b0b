"""Vote through all its versions."""

from dataclasses import replace

import pytest

from pykraft.core.messages import VoteRequest, VoteResponse
from pykraft.errors import ErrorCode, ProtocolError
from pykraft.protocol.api import ApiKey
from pykraft.rpc.context import Refusal
from pykraft.types import NO_LISTENERS, Endpoint, Epoch, Listeners, NodeId, Offset, OffsetAndEpoch, ReplicaKey
from tests.rpc.wires import KEY_2, KEY_3, LEADER, TWO_LISTENERS, asked, body_of, receive, replied, sent

REQUEST = VoteRequest(
    epoch=Epoch(5), candidate=KEY_2, voter=KEY_3, last=OffsetAndEpoch(Offset(9), Epoch(4)), pre_vote=False
)
RESPONSE = VoteResponse(error=0, epoch=Epoch(5), leader_id=NodeId(1), vote_granted=True, listeners=LEADER)


@pytest.mark.conformance(55, 100, "H3")
def test_version_2_carries_everything() -> None:
    assert sent(replace(REQUEST, pre_vote=True), 2) == replace(REQUEST, pre_vote=True)


@pytest.mark.conformance(96, 100)
def test_version_1_carries_no_pre_vote() -> None:
    assert sent(REQUEST, 1) == REQUEST
    with pytest.raises(ProtocolError) as caught:
        sent(replace(REQUEST, pre_vote=True), 1)
    assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.conformance(100)
def test_version_0_carries_no_directory_ids_and_no_voter() -> None:
    assert sent(REQUEST, 0) == replace(REQUEST, candidate=ReplicaKey(NodeId(2)), voter=None)


@pytest.mark.parametrize("voter", [None, ReplicaKey(NodeId(3))])
def test_a_voter_or_its_directory_may_be_unknown(voter: ReplicaKey | None) -> None:
    assert sent(replace(REQUEST, voter=voter), 2).voter == voter


def test_impossible_values_reach_the_core_which_answers_them() -> None:
    last = OffsetAndEpoch(Offset(-1), Epoch(-7))
    odd = replace(REQUEST, epoch=Epoch(-2), candidate=ReplicaKey(NodeId(-1)), last=last)
    assert sent(odd, 2) == odd


def test_no_cluster_id_is_accepted() -> None:
    assert asked(ApiKey.VOTE, 2, {**body_of(REQUEST, 2), "cluster_id": None}) == REQUEST


@pytest.mark.parametrize(
    "case", ["no topic", "two topics", "another topic", "no partition", "two", "another partition"]
)
def test_anything_but_our_one_partition_is_an_invalid_request(case: str) -> None:
    body = body_of(REQUEST, 2)
    (topic,) = body["topics"]
    (partition,) = topic["partitions"]
    body["topics"] = {
        "no topic": [],
        "two topics": [topic, topic],
        "another topic": [{**topic, "topic_name": "t"}],
        "no partition": [{**topic, "partitions": []}],
        "two": [{**topic, "partitions": [partition, partition]}],
        "another partition": [{**topic, "partitions": [{**partition, "partition_index": 1}]}],
    }[case]
    assert asked(ApiKey.VOTE, 2, body) == Refusal(ErrorCode.INVALID_REQUEST, {"error_code": ErrorCode.INVALID_REQUEST})


@pytest.mark.conformance(98, 100)
def test_answers_name_the_leaders_endpoint_from_version_1_on() -> None:
    assert replied(ApiKey.VOTE, 2, RESPONSE) == RESPONSE
    assert replied(ApiKey.VOTE, 1, RESPONSE) == RESPONSE
    assert replied(ApiKey.VOTE, 0, RESPONSE) == replace(RESPONSE, listeners=NO_LISTENERS)


@pytest.mark.conformance(98)
def test_an_unknown_leader_has_no_endpoint() -> None:
    unknown = replace(RESPONSE, leader_id=None, error=74, vote_granted=False)
    assert replied(ApiKey.VOTE, 2, unknown) == replace(unknown, listeners=NO_LISTENERS)


def test_one_endpoint_is_sent_under_whatever_name_it_has_here() -> None:
    there = Listeners((("CONTROLLER", Endpoint("::1", 9094)),))
    two = Listeners(TWO_LISTENERS.entries[1:])
    assert replied(ApiKey.VOTE, 2, replace(RESPONSE, listeners=two)) == replace(RESPONSE, listeners=there)


def test_endpoints_of_others_and_such_as_nobody_can_dial_are_not_told() -> None:
    partition = {"leader_id": 1, "leader_epoch": 5}
    topics = [{"topic_name": "__raft_performance_test", "partitions": [partition]}]
    for endpoint in (
        {"node_id": 2, "host": "h", "port": 1},
        {"node_id": 1, "host": "", "port": 1},
        {"node_id": 1, "host": "h", "port": 0},
    ):
        found = receive(ApiKey.VOTE, 2, {"topics": topics, "node_endpoints": [endpoint]})
        assert isinstance(found, VoteResponse)
        assert found.listeners == NO_LISTENERS


@pytest.mark.parametrize("topics", [[], [{"topic_name": "t", "partitions": [{}]}]])
def test_an_answer_about_something_else_is_the_peers_fault(topics: list[object]) -> None:
    with pytest.raises(ProtocolError, match="not about partition __raft_performance_test-0 alone"):
        receive(ApiKey.VOTE, 2, {"topics": topics})
