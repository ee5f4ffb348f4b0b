"""Fencing and addressing, which all handlers share."""

import pytest

from pykraft.core.effects import Reply, WriteElectionState
from pykraft.core.messages import TopLevelError
from pykraft.core.on.requests import is_addressed_to, leader_only_error, reply, voter_only_error
from pykraft.core.outbox import Relies
from pykraft.core.state import State
from pykraft.core.transitions import write_election
from pykraft.errors import ErrorCode
from pykraft.types import EPOCH_MAX, NO_IO, Epoch, NodeId, ReplicaKey
from tests.core.replicas import directory, done, follower, key, leader, only, replica, resigned


@pytest.mark.parametrize(
    ("sender_id", "epoch", "error"),
    [
        (2, 5, ErrorCode.NONE),
        (2, EPOCH_MAX, ErrorCode.NONE),
        (0, 6, ErrorCode.NONE),
        (2, 4, ErrorCode.FENCED_LEADER_EPOCH),
        (-1, 4, ErrorCode.FENCED_LEADER_EPOCH),
        (-1, 5, ErrorCode.INVALID_REQUEST),
        (2, EPOCH_MAX + 1, ErrorCode.INVALID_REQUEST),
    ],
)
def test_voters_are_fenced(sender_id: int, epoch: int, error: ErrorCode) -> None:
    assert voter_only_error(replica(follower()), NodeId(sender_id), Epoch(epoch)) == error


@pytest.mark.parametrize(
    ("state", "epoch", "leaves", "error"),
    [
        (leader(), 5, False, ErrorCode.NONE),
        (leader(), 4, True, ErrorCode.FENCED_LEADER_EPOCH),
        (leader(), 6, True, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (leader(), 5, True, ErrorCode.BROKER_NOT_AVAILABLE),
        (follower(), 5, True, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (resigned(), 5, False, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_only_the_leader_of_the_epoch_serves(state: State, epoch: int, leaves: bool, error: ErrorCode) -> None:
    made = replica(state)
    made.shutdown_deadline_ms = 0 if leaves else None
    assert leader_only_error(made, Epoch(epoch)) == error


@pytest.mark.parametrize(
    ("voter", "expected"),
    [
        (None, True),
        (key(1), True),
        (ReplicaKey(NodeId(1)), True),
        (ReplicaKey(NodeId(1), directory(2)), False),
        (ReplicaKey(NodeId(2)), False),
        (ReplicaKey(NodeId(2), directory(1)), False),
    ],
)
def test_a_missing_part_of_the_voters_key_matches_anything(voter: ReplicaKey | None, expected: bool) -> None:
    assert is_addressed_to(replica(), voter) is expected


@pytest.mark.parametrize("relies", [Relies.EPOCH, Relies.ELECTION])
def test_an_answer_waits_for_what_it_relies_on(relies: Relies) -> None:
    made = replica()
    write_election(made)
    io = only(done(made), WriteElectionState).io
    write_election(made)
    newest_io = only(done(made), WriteElectionState).io
    reply(made, 3, TopLevelError(error=0), relies)
    answer = only(done(made), Reply)
    assert (answer.request_id, answer.after) == (3, io if relies is Relies.EPOCH else newest_io)
    made.outbox.persist(newest_io)
    reply(made, 3, TopLevelError(error=0))
    assert only(done(made), Reply).after == NO_IO
