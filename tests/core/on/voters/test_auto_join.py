"""What a follower sends about its own membership; the scenarios ``voter_*`` tell the stories."""

from dataclasses import replace

import pytest

from pykraft.config import RaftConfig
from pykraft.core import messages
from pykraft.core.effects import Send
from pykraft.core.events import SendFailed
from pykraft.core.on.voters.auto_join import speak_of_membership
from pykraft.core.raft import on_send_failed
from pykraft.core.replica import Replica
from pykraft.core.state import Follower
from pykraft.core.voter_history import VoterHistory
from pykraft.errors import ErrorCode
from pykraft.types import Epoch, KRaftVersion, KRaftVoters, Listeners, NodeId, Offset, ReplicaKey, Voter, VoterSet
from tests.core.replicas import NOW, answer, directory, done, follower, key, later, replica, unattached, voter_set


def following(*voters: Voter, level: int = 1, auto_join: bool = False, local_id: int | None = 1) -> Replica:
    made = replica(
        replace(follower(), update_deadline_ms=NOW.mono_ms), local_id=local_id, config=RaftConfig(auto_join=auto_join)
    )
    entries = VoterSet.of(voters or voter_set(1, 2, 3).voters)
    made.voter_history = VoterHistory(entries)
    if level:
        made.voter_history.record(Offset(0), KRaftVersion(level))
        made.voter_history.record(Offset(1), KRaftVoters(entries))
    return made


def spoken(made: Replica) -> list[messages.Request]:
    assert isinstance(made.state, Follower)
    is_said = speak_of_membership(made, made.state, NOW)
    found = [effect.message for effect in done(made) if isinstance(effect, Send)]
    assert is_said == bool(found)
    return found


@pytest.mark.conformance(135)
def test_a_voter_tells_what_its_entry_does_not_say() -> None:
    (told,) = spoken(following())
    assert isinstance(told, messages.UpdateVoterRequest)
    assert (told.voter, told.kraft_version.max_version) == (key(1), 1)
    made = following()
    assert spoken(following(made.local.voter, *voter_set(2, 3).voters)) == []


@pytest.mark.conformance(135)
def test_at_level_0_each_leader_is_told_once() -> None:
    made = following(level=0)
    assert [type(one) for one in spoken(made)] == [messages.UpdateVoterRequest]
    assert isinstance(made.state, Follower)
    assert made.state.update_deadline_ms == NOW.mono_ms + made.config.fetch_timeout_ms
    told = messages.UpdateVoterResponse(error=0, epoch=made.epoch, leader_id=NodeId(2))
    answer(made, told)
    assert made.state.has_updated
    made.state = replace(made.state, update_deadline_ms=NOW.mono_ms)
    assert spoken(made) == []


@pytest.mark.conformance(135)
@pytest.mark.parametrize(
    ("error", "is_heard"),
    [(ErrorCode.NONE, True), (ErrorCode.UNSUPPORTED_VERSION, True), (ErrorCode.VOTER_NOT_FOUND, False)],
)
def test_an_answer_in_place_of_that_to_a_fetch_restarts_the_fetch_timeout(error: ErrorCode, *, is_heard: bool) -> None:
    made = following(level=0)
    assert isinstance(made.state, Follower)
    before_ms = made.state.deadline_ms
    answer(made, messages.UpdateVoterResponse(error=error, epoch=made.epoch, leader_id=NodeId(2)), now=later(90))
    assert isinstance(made.state, Follower)
    assert made.state.deadline_ms == (later(90).mono_ms + made.config.fetch_timeout_ms if is_heard else before_ms)


@pytest.mark.conformance(135)
@pytest.mark.parametrize(
    ("error", "expected"), [(ErrorCode.UNSUPPORTED_VERSION, True), (ErrorCode.VOTER_NOT_FOUND, False)]
)
def test_a_leader_that_cannot_be_told_is_not_told_again(error: ErrorCode, *, expected: bool) -> None:
    made = following(level=0)
    answer(made, messages.UpdateVoterResponse(error=error, epoch=made.epoch, leader_id=NodeId(2)))
    assert isinstance(made.state, Follower)
    assert made.state.has_updated == expected
    old = following(level=0)
    on_send_failed(old, SendFailed(peer_id=2, correlation_id=0, error=error), NOW)
    assert isinstance(old.state, Follower)
    assert old.state.has_updated == expected
    elsewhere = replica(unattached())
    on_send_failed(elsewhere, SendFailed(peer_id=2, correlation_id=0, error=error), NOW)


@pytest.mark.conformance(135)
def test_a_leader_that_is_busy_is_told_again_later_and_fetched_from_at_once() -> None:
    made = following(level=0)
    busy = ErrorCode.REQUEST_TIMED_OUT
    assert answer(made, messages.UpdateVoterResponse(error=busy, epoch=made.epoch, leader_id=NodeId(2))) == []
    assert isinstance(made.state, Follower)
    assert not made.state.has_updated
    assert not made.connections.is_backing_off(2)
    answer(made, messages.UpdateVoterResponse(error=busy, epoch=Epoch(made.epoch + 1), leader_id=NodeId(3)))
    assert made.epoch == 6, "it tells of a later epoch as any answer does"


@pytest.mark.conformance(135)
def test_the_entry_says_by_itself_whether_it_was_updated() -> None:
    made = following()
    answer(made, messages.UpdateVoterResponse(error=0, epoch=made.epoch, leader_id=NodeId(2)))
    assert isinstance(made.state, Follower)
    assert not made.state.has_updated


@pytest.mark.conformance(138)
def test_a_joiner_asks_to_be_added_or_its_old_disk_to_be_removed_first() -> None:
    others = voter_set(2, 3).voters
    (told,) = spoken(following(*others, auto_join=True))
    assert isinstance(told, messages.AddVoterRequest)
    assert (told.voter, told.ack_when_committed) == (key(1), False)
    old = Voter(key=ReplicaKey(NodeId(1), directory(9)), listeners=Listeners())
    assert spoken(following(old, *others, auto_join=True)) == [messages.RemoveVoterRequest(voter=old.key)]
    assert spoken(following(*others)) == []
    assert spoken(following(*others, auto_join=True, level=0)) == []
    assert spoken(following(*others, auto_join=True, local_id=None)) == []


@pytest.mark.conformance(135, 138)
def test_nothing_is_said_before_its_time_or_to_who_cannot_hear() -> None:
    made = following()
    made.state = replace(follower(), update_deadline_ms=NOW.mono_ms + 1)
    assert spoken(made) == []
    busy = following()
    busy.connections.sent(3, NOW.mono_ms)
    assert spoken(busy) == []
    failed = following()
    failed.connections.back_off(2, NOW.mono_ms)
    assert spoken(failed) == []


@pytest.mark.conformance(135, 138)
@pytest.mark.parametrize(("error", "waits"), [(0, False), (ErrorCode.REQUEST_TIMED_OUT, True)])
def test_an_error_is_a_reason_to_wait(error: int, *, waits: bool) -> None:
    made = following()
    answer(made, messages.ChangeVoterResponse(error=error))
    assert made.connections.is_backing_off(2) == waits
