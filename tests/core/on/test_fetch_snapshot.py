"""FetchSnapshot at the leader: it always answers, and counts the requester as alive.

Source: KIP-630 §FetchSnapshot.
"""

from __future__ import annotations

import pytest

from pykraft.core import messages
from pykraft.core.effects import Reply, ReplySnapshot
from pykraft.core.leader.progress import FIRST_ANSWER_SIZE_BYTES_MAX
from pykraft.core.leader.serving import ANSWER_SIZE_BYTES_MAX
from pykraft.core.replica import Replica
from pykraft.core.state import Leader, State
from pykraft.errors import ErrorCode
from tests.core.replicas import NOW, ask, follower, later, leader, listeners, only, replica
from tests.core.said import fetch_snapshot, place


def with_snapshot(state: State) -> Replica:
    """A replica that has a snapshot of its log up to 3."""
    made = replica(state)
    made.log.add_snapshot(place(3, 1))
    return made


@pytest.mark.conformance(121, 146)
@pytest.mark.parametrize(
    ("state", "message", "error"),
    [
        (leader(), fetch_snapshot(snapshot=(3, 2)), ErrorCode.SNAPSHOT_NOT_FOUND),
        (leader(), fetch_snapshot(snapshot=(0, 0)), ErrorCode.SNAPSHOT_NOT_FOUND),
        (leader(), fetch_snapshot(position=-1), ErrorCode.POSITION_OUT_OF_RANGE),
        (leader(), fetch_snapshot(size_bytes_max=-1), ErrorCode.INVALID_REQUEST),
        (leader(), fetch_snapshot(epoch=4), ErrorCode.FENCED_LEADER_EPOCH),
        (leader(), fetch_snapshot(epoch=6), ErrorCode.UNKNOWN_LEADER_EPOCH),
        (follower(), fetch_snapshot(), ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_the_reason_and_the_leader_are_told(
    state: State, message: messages.FetchSnapshotRequest, error: ErrorCode
) -> None:
    made = with_snapshot(state)
    assert only(ask(made, message), Reply).message == messages.FetchSnapshotResponse(
        error=error,
        epoch=made.epoch,
        leader_id=made.leader_id,
        snapshot_id=message.snapshot_id,
        listeners=listeners(made.leader_id or 0),
    )


@pytest.mark.conformance(121, "H23")
def test_the_host_answers_with_bytes() -> None:
    found = only(ask(with_snapshot(leader()), fetch_snapshot(position=7, size_bytes_max=99)), ReplySnapshot)
    assert (found.message.error, found.message.snapshot_id, found.message.position) == (0, place(3, 1), 7)
    assert (found.request_id, found.size_bytes_max) == (7, 99)
    beyond = only(ask(with_snapshot(leader()), fetch_snapshot(position=2**33)), ReplySnapshot)
    assert (beyond.message.error, beyond.message.position) == (0, 2**33)


@pytest.mark.conformance(121)
@pytest.mark.parametrize(
    ("message", "counts"),
    [
        (fetch_snapshot(), True),
        (fetch_snapshot(replica=None), False),
        (fetch_snapshot(epoch=4), False),
        (fetch_snapshot(replica=4), False),
        (fetch_snapshot(snapshot=(9, 9)), False),
        (fetch_snapshot(position=-1), False),
    ],
)
def test_a_voter_that_is_served_is_alive(message: messages.FetchSnapshotRequest, counts: bool) -> None:
    made = with_snapshot(leader())
    ask(made, message, later(70))
    assert isinstance(made.state, Leader)
    assert made.state.check_quorum_deadline_ms == NOW.mono_ms + 3_000 + (70 if counts else 0)


def test_no_slice_is_larger_than_a_bound() -> None:
    endless, state = fetch_snapshot(size_bytes_max=2**31 - 1), leader()
    assert only(ask(with_snapshot(state), endless), ReplySnapshot).size_bytes_max == FIRST_ANSWER_SIZE_BYTES_MAX
    for progress in state.progress.voters.values():
        progress.answer = progress.carried_bytes = None  # quick answers have shown that the link carries anything
    assert only(ask(with_snapshot(state), endless), ReplySnapshot).size_bytes_max == ANSWER_SIZE_BYTES_MAX
