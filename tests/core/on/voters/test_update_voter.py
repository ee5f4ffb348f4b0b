"""Membership requests in a static quorum: the order of errors, and UpdateRaftVoter.

Source: KIP-853 §UpdateRaftVoter, KAFKA-16538; Kafka ``UpdateVoterHandler``; seen with Kafka 4.3.1.
"""

from __future__ import annotations

import pytest

from pykraft.core import messages
from pykraft.core.effects import Reply
from pykraft.core.on.voters.voter_changes import STATIC_QUORUM
from pykraft.core.replica import Replica
from pykraft.core.state import Leader
from pykraft.errors import ErrorCode
from pykraft.types import ZERO_UUID, Listeners, NodeId, ReplicaKey
from tests.core.replicas import NOW, ask, follower, key, later, leader, listeners, only, replica
from tests.core.said import add_voter, update_voter

NOBODY = ReplicaKey(NodeId(4))
ZERO = ReplicaKey(NodeId(4), ZERO_UUID)
NEGATIVE = ReplicaKey(NodeId(-1), key(1).directory_id)


def leading() -> Replica:
    return replica(leader(high_watermark=11))


def error_of(made: Replica, request: messages.Request) -> int:
    message = only(ask(made, request, later(70)), Reply).message
    assert isinstance(message, messages.ChangeVoterResponse | messages.UpdateVoterResponse)
    return message.error


@pytest.mark.conformance(131, 133)
@pytest.mark.parametrize("request_", [add_voter(), messages.RemoveVoterRequest(voter=key(3))])
def test_members_come_from_the_configuration(request_: messages.Request) -> None:
    message = only(ask(leading(), request_), Reply).message
    assert message == messages.ChangeVoterResponse(error=ErrorCode.UNSUPPORTED_VERSION, error_message=STATIC_QUORUM)
    assert error_of(replica(leader()), request_) == ErrorCode.REQUEST_TIMED_OUT
    assert error_of(replica(follower()), request_) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    leaving = leading()
    leaving.shutdown_deadline_ms = 0
    assert error_of(leaving, request_) == ErrorCode.BROKER_NOT_AVAILABLE


@pytest.mark.conformance(131, 133, 134)
@pytest.mark.parametrize(
    "request_",
    [
        add_voter(voter=NOBODY),
        add_voter(voter=ZERO),
        add_voter(voter=NEGATIVE),
        add_voter(told=Listeners()),
        messages.RemoveVoterRequest(voter=NOBODY),
        update_voter(voter=NOBODY),
        update_voter(told=Listeners()),
        update_voter(versions=(1, 0)),
        update_voter(versions=(-1, 0)),
    ],
)
def test_what_cannot_be_a_voter_is_invalid_before_anything_is_committed(request_: messages.Request) -> None:
    assert error_of(replica(leader()), request_) == ErrorCode.INVALID_REQUEST


@pytest.mark.conformance(134)
@pytest.mark.parametrize(
    ("made", "request_", "error"),
    [
        (leading(), update_voter(epoch=4), ErrorCode.FENCED_LEADER_EPOCH),
        (leading(), update_voter(epoch=6), ErrorCode.UNKNOWN_LEADER_EPOCH),
        (replica(follower()), update_voter(), ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (replica(leader()), update_voter(versions=(1, 1)), ErrorCode.REQUEST_TIMED_OUT),
        (leading(), update_voter(versions=(1, 1), voter=key(9)), ErrorCode.INVALID_REQUEST),
        (leading(), update_voter(voter=key(9)), ErrorCode.VOTER_NOT_FOUND),
        (leading(), update_voter(), ErrorCode.NONE),
    ],
)
def test_update_voter(made: Replica, request_: messages.UpdateVoterRequest, error: ErrorCode) -> None:
    assert error_of(made, request_) == error
    if isinstance(made.state, Leader):
        gained_ms = 70 if error == ErrorCode.NONE else 0
        assert made.state.check_quorum_deadline_ms == NOW.mono_ms + 3_000 + gained_ms


@pytest.mark.conformance(134)
def test_the_answer_to_update_voter_names_the_leader() -> None:
    message = only(ask(replica(follower()), update_voter()), Reply).message
    assert isinstance(message, messages.UpdateVoterResponse)
    assert (message.epoch, message.leader_id, message.listeners) == (5, 2, listeners(2))
