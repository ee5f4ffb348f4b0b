"""Each answer that is of no use has its reason, and each useful one none.

Source: ADR 051.
"""

from __future__ import annotations

import pytest

from pykraft.core.messages import BeginQuorumEpochResponse, FetchResponse, Response, TopLevelError, VoteResponse
from pykraft.errors import ErrorCode
from pykraft.host.peer_problems import INCONSISTENT_VOTER_SET, problem_in, silence
from pykraft.types import Epoch, NodeId, Offset
from tests.host.fakes import CONTEXT
from tests.rpc.test_connection import vote


def voted(*, granted: bool = False, error: int = 0, leader_id: int | None = None) -> VoteResponse:
    leader = None if leader_id is None else NodeId(leader_id)
    return VoteResponse(error=error, epoch=Epoch(7), leader_id=leader, vote_granted=granted)


def fetched(error: int, leader_id: int | None = None) -> FetchResponse:
    return FetchResponse(
        error=error,
        epoch=Epoch(7),
        leader_id=None if leader_id is None else NodeId(leader_id),
        high_watermark=None,
        log_start_offset=Offset(0),
    )


PROBLEMS: dict[str, tuple[Response, str | None]] = {
    "a vote": (voted(granted=True), None),
    "no vote": (voted(), "it does not vote for this node in epoch 7: its log may be longer, or its vote is given"),
    "no vote because of a leader": (
        voted(leader_id=3),
        "it does not vote for this node, since it hears leader 3 in epoch 7",
    ),
    "another cluster": (
        TopLevelError(error=ErrorCode.INCONSISTENT_CLUSTER_ID),
        f"it belongs to another cluster than this node, whose cluster.id is {CONTEXT.cluster_id}",
    ),
    "another topic": (
        TopLevelError(error=ErrorCode.INVALID_REQUEST),
        f"it may not have topic {CONTEXT.topic_name}, which this node keeps: see pykraft.topic",
    ),
    "another node": (
        voted(error=ErrorCode.INVALID_VOTER_KEY),
        "it is not the voter that this node expects: its node.id or directory.id is another one",
    ),
    "other voters": (
        voted(error=INCONSISTENT_VOTER_SET),
        "this node is not among its voters (INCONSISTENT_VOTER_SET): compare controller.quorum.voters",
    ),
    "not allowed": (voted(error=ErrorCode.CLUSTER_AUTHORIZATION_FAILED), "it answers CLUSTER_AUTHORIZATION_FAILED"),
    "a code that nobody knows": (voted(error=999), "it answers error 999"),
    "records": (fetched(0), None),
    "no leader": (fetched(ErrorCode.NOT_LEADER_OR_FOLLOWER), "it knows no leader in epoch 7"),
    "another leader": (
        fetched(ErrorCode.FENCED_LEADER_EPOCH, leader_id=3),
        "it names node 3 as the leader in epoch 7",
    ),
    "an acknowledged leader": (BeginQuorumEpochResponse(error=0, epoch=Epoch(7), leader_id=NodeId(1)), None),
}


@pytest.mark.parametrize(("message", "problem"), PROBLEMS.values(), ids=PROBLEMS)
def test_problems(message: Response, problem: str | None) -> None:
    assert problem_in(message, CONTEXT) == problem


def test_silence_names_the_request() -> None:
    assert silence(vote()) == "no answer to Vote"
