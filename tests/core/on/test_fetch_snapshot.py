"""FetchSnapshot: always answered, and never with a snapshot yet."""

from __future__ import annotations

import pytest

from pykraft.core import messages
from pykraft.core.effects import Reply
from pykraft.core.state import Leader, State
from pykraft.errors import ErrorCode
from tests.core.replicas import NOW, ask, follower, later, leader, listeners, only, replica
from tests.core.said import fetch_snapshot


@pytest.mark.parametrize(
    ("state", "epoch", "error"),
    [
        (leader(), 5, ErrorCode.SNAPSHOT_NOT_FOUND),
        (leader(), 4, ErrorCode.FENCED_LEADER_EPOCH),
        (leader(), 6, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (follower(), 5, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_the_reason_and_the_leader_are_told(state: State, epoch: int, error: ErrorCode) -> None:
    made = replica(state)
    message = only(ask(made, fetch_snapshot(epoch=epoch)), Reply).message
    assert message == messages.FetchSnapshotResponse(
        error=error,
        epoch=made.epoch,
        leader_id=made.leader_id,
        snapshot_id=fetch_snapshot().snapshot_id,
        listeners=listeners(made.leader_id or 0),
    )


@pytest.mark.parametrize(
    ("replica_id", "epoch", "counts"), [(2, 5, True), (None, 5, False), (2, 4, False), (4, 5, False)]
)
def test_a_voters_request_is_a_sign_of_life(replica_id: int | None, epoch: int, counts: bool) -> None:
    made = replica(leader())
    ask(made, fetch_snapshot(replica=replica_id, epoch=epoch), later(70))
    assert isinstance(made.state, Leader)
    assert made.state.check_quorum_deadline_ms == NOW.mono_ms + 3_000 + (70 if counts else 0)
