"""Each message of the quorum is described in words; an unreadable one is described as such."""

from __future__ import annotations

from typing import Any

import pytest

from pykraft.errors import ErrorCode
from pykraft.protocol.api import encode_request, encode_response
from pykraft.protocol.messages import ApiKey
from pykraft.protocol.records import encode_batch
from pykraft.sim.page.words import UNREADABLE, MessageText, Words
from pykraft.types import Epoch, Offset

TOPIC = "topic"
NO_ID = bytes(16)


def request(api_key: ApiKey, version: int, body: dict[str, Any], correlation_id: int = 7) -> bytes:
    return b"".join(encode_request(api_key, version, correlation_id, "client", body))


def answer(api_key: ApiKey, version: int, body: dict[str, Any], correlation_id: int = 7) -> bytes:
    return b"".join(encode_response(api_key, version, correlation_id, body))


def vote(*, pre_vote: bool) -> bytes:
    partition = {
        "partition_index": 0,
        "replica_epoch": 4,
        "replica_id": 1,
        "replica_directory_id": NO_ID,
        "voter_directory_id": NO_ID,
        "last_offset_epoch": 3,
        "last_offset": 55,
        "pre_vote": pre_vote,
    }
    topics = [{"topic_name": TOPIC, "partitions": [partition]}]
    return request(ApiKey.VOTE, 2, {"cluster_id": "c", "voter_id": 2, "topics": topics})


def vote_answer(*, granted: bool, leader_id: int = -1, error_code: int = 0) -> bytes:
    partition = {
        "partition_index": 0,
        "error_code": error_code,
        "leader_id": leader_id,
        "leader_epoch": 4,
        "vote_granted": granted,
    }
    topics = [{"topic_name": TOPIC, "partitions": [partition]}]
    return answer(ApiKey.VOTE, 2, {"error_code": 0, "topics": topics, "node_endpoints": []})


def begin_or_end(api_key: ApiKey) -> bytes:
    partition: dict[str, Any] = {"partition_index": 0, "leader_id": 3, "leader_epoch": 9}
    body: dict[str, Any] = {"cluster_id": "c", "leader_endpoints": []}
    if api_key is ApiKey.BEGIN_QUORUM_EPOCH:
        partition["voter_directory_id"] = NO_ID
        body["voter_id"] = 2
    else:
        partition |= {"preferred_successors": [], "preferred_candidates": []}
    return request(api_key, 1, {**body, "topics": [{"topic_name": TOPIC, "partitions": [partition]}]})


def fetch() -> bytes:
    partition = {
        "partition": 0,
        "current_leader_epoch": 4,
        "fetch_offset": 97,
        "last_fetched_epoch": 3,
        "log_start_offset": -1,
        "partition_max_bytes": 0,
        "replica_directory_id": NO_ID,
        "high_watermark": 93,
    }
    body = {"cluster_id": "c", "replica_state": {"replica_id": 2, "replica_epoch": -1}, "max_wait_ms": 5}
    body |= {"min_bytes": 0, "max_bytes": 9, "isolation_level": 0, "session_id": 0, "session_epoch": -1}
    topics = [{"topic_id": NO_ID, "partitions": [partition]}]
    return request(ApiKey.FETCH, 18, {**body, "topics": topics, "forgotten_topics_data": [], "rack_id": ""})


def fetch_answer(**given: Any) -> bytes:
    partition = {
        "partition_index": 0,
        "error_code": 0,
        "high_watermark": 93,
        "last_stable_offset": -1,
        "log_start_offset": 0,
        "diverging_epoch": {"epoch": -1, "end_offset": -1},
        "current_leader": {"leader_id": -1, "leader_epoch": -1},
        "snapshot_id": {"end_offset": -1, "epoch": -1},
        "aborted_transactions": None,
        "preferred_read_replica": -1,
        "records": b"",
        **given,
    }
    responses = [{"topic_id": NO_ID, "partitions": [partition]}]
    body = {"throttle_time_ms": 0, "error_code": 0, "session_id": 0, "responses": responses, "node_endpoints": []}
    return answer(ApiKey.FETCH, 18, body)


def batch(base_offset: int, epoch: int) -> bytes:
    return encode_batch([b"a", b"b"], base_offset=Offset(base_offset), epoch=Epoch(epoch), timestamp_ms=0).data


@pytest.mark.parametrize(
    ("frame", "kind", "text"),
    [
        (vote(pre_vote=False), "Vote", "node 1 asks, in epoch 4; its log ends at 55, epoch 3"),
        (vote(pre_vote=True), "PreVote", "node 1 asks, in epoch 4; its log ends at 55, epoch 3"),
        (begin_or_end(ApiKey.BEGIN_QUORUM_EPOCH), "BeginQuorumEpoch", "node 3 leads epoch 9"),
        (begin_or_end(ApiKey.END_QUORUM_EPOCH), "EndQuorumEpoch", "node 3 gives up epoch 9"),
        (fetch(), "Fetch", "from 97 on, last epoch 3; in epoch 4, high watermark 93"),
    ],
)
def test_requests_say_what_they_ask(frame: bytes, kind: str, text: str) -> None:
    assert Words().tell(1, 2, frame) == MessageText(kind=kind, text=text)


@pytest.mark.parametrize(
    ("asked", "frame", "kind", "text"),
    [
        (
            vote(pre_vote=False),
            vote_answer(granted=True),
            "Vote answer",
            "granted; I am in epoch 4, whose leader I do not know",
        ),
        (
            vote(pre_vote=True),
            vote_answer(granted=False, leader_id=3),
            "PreVote answer",
            "denied; I am in epoch 4, led by node 3",
        ),
        (
            vote(pre_vote=False),
            vote_answer(granted=False, error_code=ErrorCode.FENCED_LEADER_EPOCH),
            "Vote answer",
            "FENCED_LEADER_EPOCH; I am in epoch 4, whose leader I do not know",
        ),
        (fetch(), fetch_answer(), "Fetch answer", "nothing new; high watermark 93"),
        (
            fetch(),
            fetch_answer(records=batch(97, 4), high_watermark=-1),
            "Fetch answer",
            "97 to 98 of epoch 4; high watermark unknown",
        ),
        (
            fetch(),
            fetch_answer(records=batch(97, 4) + batch(99, 6)),
            "Fetch answer",
            "97 to 100 of epochs 4 to 6; high watermark 93",
        ),
        (
            fetch(),
            fetch_answer(diverging_epoch={"epoch": 2, "end_offset": 40}),
            "Fetch answer",
            "your log is another one: epoch 2 ends at 40 here",
        ),
        (
            fetch(),
            fetch_answer(error_code=6, current_leader={"leader_id": 1, "leader_epoch": 5}),
            "Fetch answer",
            "NOT_LEADER_OR_FOLLOWER; I am in epoch 5, led by node 1",
        ),
        (fetch(), fetch_answer(error_code=31_999), "Fetch answer", "error 31999"),
    ],
)
def test_answers_are_told_with_what_they_answer(asked: bytes, frame: bytes, kind: str, text: str) -> None:
    words = Words()
    words.tell(1, 2, asked)
    assert words.tell(2, 1, frame) == MessageText(kind=kind, text=text)


@pytest.mark.parametrize("frame", [b"", b"abc", vote_answer(granted=True), vote(pre_vote=True)[:30], b"\xff" * 20])
def test_what_cannot_be_read_is_told_as_such(frame: bytes) -> None:
    assert Words().tell(1, 2, frame).kind == UNREADABLE
