"""AddRaftVoter and RemoveRaftVoter step by step; the scenarios ``voter_*`` tell the stories."""

from dataclasses import replace

import pytest

from pykraft.core import messages
from pykraft.core.effects import Reply, Send
from pykraft.core.leader.pending import Removal
from pykraft.core.replica import Replica
from pykraft.errors import ErrorCode
from pykraft.types import Instant, NodeId, Offset, ReplicaKey, VersionRange
from tests.core.on.voters.test_voter_changes import behind, dynamic, leading
from tests.core.replicas import NOW, answer, ask, directory, key, later, only, voter_set
from tests.core.said import add_voter

BOTH = VersionRange(0, 1)


def asked(*, caught_up: bool = True, committed: bool = True, now: Instant = NOW) -> Replica:
    """Node 4 was asked what it supports."""
    made = dynamic()
    if caught_up:
        leading(made).progress.of(key(4)).fetched(Offset(10), Offset(10), now)
    found = ask(made, replace(add_voter(), ack_when_committed=committed))
    send = only(found, Send)
    assert (send.peer.id, send.message) == (4, messages.ApiVersionsRequest(node_id=NodeId(4)))
    return made


def said(made: Replica, error: int = 0, levels: VersionRange | None = BOTH) -> list[int]:
    found = answer(made, messages.ApiVersionsResponse(error=error, kraft_version=levels), peer_id=4)
    replies = [effect.message for effect in found if isinstance(effect, Reply)]
    return [message.error for message in replies if isinstance(message, messages.ChangeVoterResponse)]


@pytest.mark.conformance(130)
def test_a_voter_is_added_once_it_has_caught_up() -> None:
    made = asked()
    assert said(made) == []
    assert made.voters.ids == (1, 2, 3, 4)
    entry = made.voters.get(NodeId(4))
    assert entry is not None
    assert (entry.key, entry.kraft_version) == (key(4), BOTH)
    assert leading(made).progress.voters[NodeId(4)].end_offset == 10
    assert said(made) == [], "an answer that nobody waits for"


@pytest.mark.conformance(131)
@pytest.mark.parametrize(
    ("made", "error", "levels", "expected"),
    [
        (asked, 35, BOTH, ErrorCode.REQUEST_TIMED_OUT),
        (asked, ErrorCode.REBOOTSTRAP_REQUIRED, None, ErrorCode.INVALID_REQUEST),
        (asked, 0, None, ErrorCode.INVALID_REQUEST),
        (asked, 0, VersionRange(0, 0), ErrorCode.INVALID_REQUEST),
        (asked, 0, VersionRange(2, 3), ErrorCode.INVALID_REQUEST),
        (lambda: asked(caught_up=False), 0, BOTH, ErrorCode.REQUEST_TIMED_OUT),
        (lambda: asked(now=Instant(mono_ms=NOW.mono_ms - 3_600_000, wall_ms=1)), 0, BOTH, ErrorCode.REQUEST_TIMED_OUT),
    ],
)
def test_whoever_cannot_be_a_voter_is_refused(
    made: object, error: int, levels: VersionRange | None, expected: ErrorCode
) -> None:
    assert callable(made)
    one = made()
    assert said(one, error, levels) == [expected]
    assert one.voters.ids == (1, 2, 3)
    assert leading(one).change is None


@pytest.mark.conformance(132)
def test_an_answer_before_the_commit_if_wanted() -> None:
    made = asked(committed=False)
    assert said(made) == [ErrorCode.NONE]
    change = leading(made).change
    assert change is not None
    assert change.is_answered


@pytest.mark.conformance(131)
def test_an_id_is_taken_whatever_its_disk_and_a_busy_node_cannot_be_asked() -> None:
    taken = add_voter(voter=ReplicaKey(NodeId(3), directory(9)))
    (error,) = [m.message for m in ask(dynamic(), taken) if isinstance(m, Reply)]
    assert isinstance(error, messages.ChangeVoterResponse)
    assert error.error == ErrorCode.DUPLICATE_VOTER
    busy = dynamic()
    busy.connections.back_off(4, later(0).mono_ms)
    (error,) = [m.message for m in ask(busy, add_voter()) if isinstance(m, Reply)]
    assert isinstance(error, messages.ChangeVoterResponse)
    assert error.error == ErrorCode.REQUEST_TIMED_OUT


def test_a_backlog_that_came_meanwhile_is_appended_first() -> None:
    made = behind(asked())
    assert said(made) == [ErrorCode.REQUEST_TIMED_OUT]
    assert made.voters.ids == (1, 2, 3)


@pytest.mark.conformance(133)
def test_the_set_without_it_counts_at_once() -> None:
    made = dynamic()
    leading(made).fetched_voters = {NodeId(3)}
    found = ask(made, messages.RemoveVoterRequest(voter=key(3)))
    assert not [effect for effect in found if isinstance(effect, Reply)]
    assert (made.voters.ids, made.voter_history.voters_offset) == ((1, 2), 10)
    state = leading(made)
    assert state.change == Removal(request_id=7, deadline_ms=NOW.mono_ms + 2_000, offset=Offset(10))
    assert (set(state.progress.voters), state.fetched_voters) == ({1, 2}, set())


@pytest.mark.conformance(133)
@pytest.mark.parametrize(
    ("ids", "gone", "text"),
    [
        ((1, 2, 3), key(4), "id 4 is not a voter; the voters are 1, 2, 3"),
        (
            (1, 2, 3),
            ReplicaKey(NodeId(3), directory(9)),
            "voter 3 has directory id AwMDAwMDAwMDAwMDAwMDAw, not CQkJCQkJCQkJCQkJCQkJCQ",
        ),
        ((1,), key(1), "the last voter cannot be removed"),
    ],
)
def test_who_is_not_found(ids: tuple[int, ...], gone: ReplicaKey, text: str) -> None:
    message = only(ask(dynamic(voters=voter_set(*ids)), messages.RemoveVoterRequest(voter=gone)), Reply).message
    assert message == messages.ChangeVoterResponse(error=ErrorCode.VOTER_NOT_FOUND, error_message=text)
