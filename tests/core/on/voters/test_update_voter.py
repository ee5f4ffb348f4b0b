"""Membership requests in a static quorum: the order of errors; and UpdateRaftVoter step by step."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from pykraft.core import messages
from pykraft.core.effects import AppendBatches, Effect, Peer, Reply, Report, Send
from pykraft.core.enter_state import to_resigned
from pykraft.core.on.voters.asked_levels import on_asked_node_failed
from pykraft.core.on.voters.update_voter import ask_if_silent
from pykraft.core.on.voters.voter_changes import STATIC_QUORUM, end_change
from pykraft.core.replica import Replica
from pykraft.core.state import Leader
from pykraft.errors import ErrorCode
from pykraft.types import ZERO_UUID, Endpoint, Epoch, Listeners, NodeId, Offset, ReplicaKey, VersionRange
from tests.core.on.voters.test_voter_changes import behind, dynamic
from tests.core.replicas import LISTENER, NOW, answer, ask, done, follower, key, later, leader, listeners, only, replica
from tests.core.said import add_voter, fetch, update_voter

NOBODY = ReplicaKey(NodeId(4))
ZERO = ReplicaKey(NodeId(4), ZERO_UUID)
NEGATIVE = ReplicaKey(NodeId(-1), key(1).directory_id)


BOTH = VersionRange(0, 1)
ELSEWHERE = Endpoint("elsewhere", 9_999)
MOVED = update_voter(told=Listeners(((LISTENER, ELSEWHERE),)))
TIMED_OUT = messages.UpdateVoterResponse(error=ErrorCode.REQUEST_TIMED_OUT, epoch=Epoch(5), leader_id=NodeId(1))


def leading() -> Replica:
    return replica(leader(high_watermark=11))


def busy() -> Replica:
    """Voter 2 cannot be asked now."""
    made = leading()
    made.connections.back_off(2, NOW.mono_ms)
    return made


def of_another_directory() -> Replica:
    """Static voter 2 fetches from another directory than the one that is reported in its name."""
    made = leading()
    assert isinstance(made.state, Leader)
    made.state.progress.voters[NodeId(2)].directory_id = key(9).directory_id
    return made


def answer_levels(made: Replica, levels: VersionRange = BOTH) -> Sequence[Effect]:
    """The voter answers the leader's question."""
    told = messages.ApiVersionsResponse(error=0, kraft_version=levels)
    return answer(made, told, peer_id=2, now=later(390))


def move(made: Replica) -> Sequence[Effect]:
    """The voter says that it moved, does not fetch for long enough, and is asked there."""
    assert ask(made, MOVED, later(70)) == []
    assert isinstance(made.state, Leader)
    ask_if_silent(made, made.state, later(319))
    assert done(made) == []
    ask_if_silent(made, made.state, later(320))
    return done(made)


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
        (of_another_directory(), update_voter(), ErrorCode.VOTER_NOT_FOUND),
        (busy(), update_voter(), ErrorCode.REQUEST_TIMED_OUT),
        (dynamic(high_watermark=None), update_voter(), ErrorCode.REQUEST_TIMED_OUT),
        (dynamic(high_watermark=5), update_voter(), ErrorCode.REQUEST_TIMED_OUT),
        (dynamic(), update_voter(versions=(0, 0)), ErrorCode.INVALID_REQUEST),
        (dynamic(), update_voter(voter=key(9)), ErrorCode.VOTER_NOT_FOUND),
        (dynamic(), update_voter(voter=ReplicaKey(NodeId(2), key(9).directory_id)), ErrorCode.VOTER_NOT_FOUND),
    ],
)
def test_what_is_refused_without_asking_anybody(
    made: Replica, request_: messages.UpdateVoterRequest, error: ErrorCode
) -> None:
    assert error_of(made, request_) == error
    if isinstance(made.state, Leader):
        assert made.state.change is None
        assert made.state.check_quorum_deadline_ms == NOW.mono_ms + 3_000


@pytest.mark.conformance(134)
@pytest.mark.parametrize("made", [leading, dynamic])
def test_the_voter_is_asked_at_its_new_endpoint_before_it_is_updated(made: Callable[[], Replica]) -> None:
    one = made()
    send = only(move(one), Send)
    assert send.peer == Peer(id=2, endpoint=ELSEWHERE)
    assert isinstance(send.message, messages.ApiVersionsRequest)
    assert error_of(one, update_voter(voter=key(3), told=listeners(3))) == ErrorCode.REQUEST_TIMED_OUT, "one at a time"
    found = answer_levels(one)
    message = only(found, Reply).message
    assert message == messages.UpdateVoterResponse(
        error=0, epoch=Epoch(5), leader_id=NodeId(1), listeners=one.reply_listeners(LISTENER)
    )
    assert isinstance(one.state, Leader)
    assert one.state.check_quorum_deadline_ms == later(390).mono_ms + 3_000, "a sign of life"


@pytest.mark.conformance(134)
def test_a_static_voter_is_updated_in_memory_and_the_change_ends() -> None:
    made = leading()
    move(made)
    assert not [effect for effect in answer_levels(made) if isinstance(effect, AppendBatches)]
    assert isinstance(made.state, Leader)
    assert made.state.change is None
    assert made.state.volatile_voters.listeners(NodeId(2)).get(LISTENER) == ELSEWHERE
    # To tell it again changes nothing.
    assert error_of(made, MOVED) == ErrorCode.NONE
    assert made.state.change is None


@pytest.mark.conformance(134)
def test_an_entry_in_the_log_is_answered_before_the_commit_and_other_changes_wait_for_it() -> None:
    made = dynamic()
    move(made)
    assert [type(effect) for effect in answer_levels(made)] == [AppendBatches, Reply]
    assert made.voters.listeners(NodeId(2)).get(LISTENER) == ELSEWHERE
    assert error_of(made, messages.RemoveVoterRequest(voter=key(3))) == ErrorCode.REQUEST_TIMED_OUT
    state = made.state
    assert isinstance(state, Leader)
    state.high_watermark = Offset(11)
    end_change(made, state, later(100))
    assert done(made) == [], "it was answered"
    assert state.change is None
    # To tell it again changes nothing.
    assert error_of(made, MOVED) == ErrorCode.NONE
    assert state.change is None


@pytest.mark.conformance(134)
@pytest.mark.parametrize(("request_ms", "wait_ms"), [(2_000, 1_000), (700, 700)])
def test_a_voter_that_does_not_answer_hears_so_before_its_fetch_timeout(request_ms: int, wait_ms: int) -> None:
    made = dynamic()
    made.config = replace(made.config, request_timeout_ms=request_ms)
    ask(made, MOVED)
    assert isinstance(made.state, Leader)
    assert made.config.fetch_timeout_ms == 2_000
    end_change(made, made.state, later(wait_ms - 1))
    assert made.state.change is not None
    end_change(made, made.state, later(wait_ms))
    found = done(made)
    assert only(found, Reply).message == replace(TIMED_OUT, listeners=made.reply_listeners(LISTENER))
    assert "voter 2" in only(found, Report).text
    assert made.state.change is None


@pytest.mark.conformance(134)
def test_a_leader_that_steps_down_names_no_change() -> None:
    made = dynamic()
    move(made)
    to_resigned(made, NOW)
    found = done(made)
    answer = only(found, Reply).message
    assert isinstance(answer, messages.UpdateVoterResponse)
    assert answer.error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not [effect for effect in found if isinstance(effect, Report)]
    assert answer_levels(made) == []


@pytest.mark.conformance(134)
@pytest.mark.parametrize("made", [leading, dynamic])
def test_another_node_at_the_endpoint_is_not_the_voter(made: Callable[[], Replica]) -> None:
    one = made()
    move(one)
    found = answer_levels(one, VersionRange(0, 2))
    assert only(found, Reply).message == replace(
        TIMED_OUT, error=ErrorCode.INVALID_REQUEST, listeners=one.reply_listeners(LISTENER)
    )
    assert "0 to 1" in only(found, Report).text
    assert isinstance(one.state, Leader)
    assert one.state.change is None
    assert one.state.volatile_voters.get(NodeId(2)) is None


@pytest.mark.conformance(134)
def test_a_voter_that_fetches_has_not_moved_whoever_says_so() -> None:
    made = dynamic()
    assert ask(made, MOVED) == []
    found = ask(made, fetch(high_watermark=10), later(10))
    message = only(found, Reply).message
    assert isinstance(message, messages.UpdateVoterResponse)
    assert message.error == ErrorCode.INVALID_REQUEST
    assert "another node has sent this in its name" in only(found, Report).text
    assert isinstance(made.state, Leader)
    assert made.state.change is None
    # Its Fetch waits here.
    assert error_of(made, MOVED) == ErrorCode.REQUEST_TIMED_OUT


def test_what_failed_before_the_voter_is_asked_was_sent_to_its_former_endpoint() -> None:
    made = dynamic()
    ask(made, MOVED)
    on_asked_node_failed(made, 2)
    assert done(made) == []
    assert isinstance(made.state, Leader)
    # A request to its former endpoint is still in flight: ask later.
    made.connections.sent(2, NOW.mono_ms)
    ask_if_silent(made, made.state, later(300))
    assert done(made) == []


def test_a_backlog_that_came_meanwhile_is_appended_first() -> None:
    made = dynamic()
    move(made)
    found = answer_levels(behind(made))
    assert only(found, Reply).message == replace(TIMED_OUT, listeners=made.reply_listeners(LISTENER))
    assert made.voter_history.voters_offset == 5


@pytest.mark.conformance(134)
def test_the_answer_to_update_voter_names_the_leader() -> None:
    message = only(ask(replica(follower()), update_voter()), Reply).message
    assert isinstance(message, messages.UpdateVoterResponse)
    assert (message.epoch, message.leader_id, message.listeners) == (5, 2, listeners(2))


@pytest.mark.conformance(134)
@pytest.mark.parametrize("made", [leading, lambda: replica(follower())])
def test_a_request_of_another_cluster_is_refused_before_anything_else_and_told_who_leads(
    made: Callable[[], Replica],
) -> None:
    node = made()
    request = replace(update_voter(epoch=1), error=ErrorCode.INCONSISTENT_CLUSTER_ID)
    message = only(ask(node, request), Reply).message
    assert isinstance(message, messages.UpdateVoterResponse)
    assert message.error == ErrorCode.INCONSISTENT_CLUSTER_ID
    assert (message.epoch, message.leader_id) == (node.epoch, node.leader_id)
