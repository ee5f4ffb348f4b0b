"""Fetch at the leader: what is rejected, what counts as an acknowledgement, what is parked."""

from dataclasses import replace

import pytest

from pykraft import types
from pykraft.core import messages
from pykraft.core.effects import Effect, NotifyHighWatermark, Reply, ReplyFetch, Report
from pykraft.core.events import Proposed
from pykraft.core.leader.appending import drain_if_due
from pykraft.core.leader.parked import (
    HIGH_WATERMARK_WAIT_MS,
    OTHERS_PER_STEP_MAX,
    PACE_MS,
    PARKED_FETCHES_MAX,
    ParkedFetch,
)
from pykraft.core.leader.serving import ANSWER_SIZE_BYTES_MAX
from pykraft.core.log_view import LogView
from pykraft.core.on.fetch_request import ALARMS_PER_EPOCH_MAX, WAIT_MS_MAX, note_sign_of_life
from pykraft.core.on.propose import on_proposed
from pykraft.core.on.timer import poll
from pykraft.core.replica import Replica
from pykraft.core.state import OFTEN_COUNT, Leader
from pykraft.errors import ErrorCode
from tests.core import replicas
from tests.core.said import begun, fetch


def leading(*, voters: int = 3) -> Replica:
    """A leader of epoch 5 whose first record, at 10, is flushed."""
    members = replicas.voter_set(*range(1, voters + 1))
    made = replicas.replica(replicas.leader(voters=members), voters=members)
    made.log.append(base_offset=types.Offset(10), end_offset=types.Offset(11), epoch=types.Epoch(5))
    made.log.submit(types.Io(1))
    made.log.persist(types.Io(1))
    return made


def state_of(made: Replica) -> Leader:
    assert isinstance(made.state, Leader)
    return made.state


def error_of(found: list[Effect], *, log_start_offset: int = 0) -> int:
    message = replicas.only(found, Reply).message
    assert isinstance(message, messages.FetchResponse)
    assert (message.high_watermark, message.log_start_offset, message.batches) == (None, log_start_offset, ())
    return message.error


@pytest.mark.conformance(40)
@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (fetch(wait_ms=-1, epoch=4), ErrorCode.INVALID_REQUEST),
        (fetch(at=(-1, 0), epoch=6), ErrorCode.INVALID_REQUEST),
        (fetch(at=(1, -1)), ErrorCode.INVALID_REQUEST),
        (fetch(at=(1, 6)), ErrorCode.INVALID_REQUEST),
        (fetch(epoch=-1, at=(0, 0)), ErrorCode.INVALID_REQUEST),
        (fetch(epoch=4, replica=1), ErrorCode.FENCED_LEADER_EPOCH),
        (fetch(epoch=6, replica=1), ErrorCode.UNKNOWN_LEADER_EPOCH),
        (fetch(replica=1), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_what_is_refused_and_in_which_order(request_: messages.FetchRequest, error: ErrorCode) -> None:
    made = leading()
    assert error_of(replicas.ask(made, request_)) == error
    assert state_of(made).progress.voters[types.NodeId(2)].end_offset is None
    assert made.epoch == 5


@pytest.mark.parametrize("name", [name for name in replicas.STATES if name != "leader"])
def test_only_the_leader_serves(name: str) -> None:
    assert (
        error_of(replicas.ask(replicas.replica(replicas.STATES[name]()), fetch())) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    )


def test_a_leader_that_leaves_does_not_serve() -> None:
    made = leading()
    made.shutdown_deadline_ms = 0
    assert error_of(replicas.ask(made, fetch())) == ErrorCode.BROKER_NOT_AVAILABLE


@pytest.mark.conformance(120)
@pytest.mark.parametrize("at", [(0, 0), (3, 1), (4, 1), (4, 3), (9, 1)])
def test_what_the_log_cannot_help_with_a_snapshot_can_and_it_is_no_acknowledgement(at: tuple[int, int]) -> None:
    ids = [types.OffsetAndEpoch(types.Offset(4), types.Epoch(2)), types.OffsetAndEpoch(types.Offset(7), types.Epoch(3))]
    starts = [types.EpochStart(epoch=types.Epoch(3), start_offset=types.Offset(4))]
    log = LogView(start_offset=types.Offset(4), end_offset=types.Offset(9), epochs=starts, snapshots=ids)
    made = replicas.replica(replicas.leader(), log=log)
    found = replicas.only(replicas.ask(made, fetch(at=at)), ReplyFetch)
    assert (found.message.snapshot_id, found.message.diverging) == (ids[-1], None)
    assert found.fetch_offset == found.end_offset
    assert isinstance(made.state, Leader)
    assert made.state.progress.voters[types.NodeId(2)].end_offset is None


def test_a_fetch_below_the_end_is_answered_at_once_and_one_at_the_end_waits() -> None:
    made = leading()
    served = replicas.only(replicas.ask(made, fetch(at=(10, 3))), ReplyFetch)
    assert (served.fetch_offset, served.end_offset, served.size_bytes_max) == (10, 11, 1_000)
    assert replicas.ask(made, fetch(at=(11, 5), replica=None)) == []
    (parked,) = made.parked.take_all()
    assert (parked.request_id, parked.listener, parked.deadline_ms) == (
        7,
        replicas.LISTENER,
        replicas.NOW.mono_ms + 500,
    )


def test_while_records_come_often_a_new_high_watermark_waits_a_moment_for_the_next() -> None:
    made = leading()
    replicas.ask(made, fetch(at=(11, 5)))
    state_of(made).advanced_ms.extend([replicas.NOW.mono_ms] * OFTEN_COUNT)
    assert replicas.ask(made, fetch(at=(11, 5), high_watermark=3)) == []
    (parked,) = made.parked.take_all()
    assert parked.deadline_ms == replicas.NOW.mono_ms + HIGH_WATERMARK_WAIT_MS


@pytest.mark.conformance(117)
def test_one_more_than_may_wait_is_answered_at_once() -> None:
    made = leading()
    for request_id in range(PARKED_FETCHES_MAX):
        made.parked.park(ParkedFetch(request_id=request_id, listener=replicas.LISTENER, request=fetch(), deadline_ms=0))
    assert replicas.kinds(replicas.ask(made, fetch(at=(11, 5), replica=None))) == ["ReplyFetch"]


@pytest.mark.conformance(117)
def test_others_make_room_for_a_voter_and_voters_for_nobody() -> None:
    made = leading()
    replicas.ask(made, fetch(at=(11, 5)))
    assert state_of(made).high_watermark == 11
    for request_id in range(100, 100 + PARKED_FETCHES_MAX):
        made.parked.park(ParkedFetch(request_id=request_id, listener=replicas.LISTENER, request=fetch(), deadline_ms=0))
    served = replicas.only(replicas.ask(made, fetch(at=(11, 5), high_watermark=11)), ReplyFetch)
    assert served.request_id == 100, "the oldest of the others, so that the voter does not ask again at once"
    assert [(each.request_id, each.is_voter) for each in made.parked.take_all() if each.is_voter] == [(7, True)]
    for request_id in range(100, 100 + PARKED_FETCHES_MAX):
        parked = ParkedFetch(
            request_id=request_id, listener=replicas.LISTENER, request=fetch(), deadline_ms=0, is_voter=True
        )
        made.parked.park(parked)
    assert replicas.only(replicas.ask(made, fetch(at=(11, 5), high_watermark=11)), ReplyFetch).request_id == 7


def test_many_that_want_committed_records_only_wait_for_their_turn_but_no_voter_does() -> None:
    made = leading()
    replicas.ask(made, fetch(at=(11, 5)))
    made.parked.take_all()
    asked = replace(fetch(at=(10, 3), replica=None), is_committed_only=True)
    for _ in range(OTHERS_PER_STEP_MAX):
        assert replicas.kinds(replicas.ask(made, asked)) == ["ReplyFetch"]
    assert replicas.ask(made, asked) == []
    voters = replace(fetch(at=(10, 3), replica=3), is_committed_only=True)
    assert replicas.kinds(replicas.ask(made, voters)) == ["ReplyFetch"]
    poll(made, replicas.later(PACE_MS - 1))
    assert replicas.done(made) == []
    poll(made, replicas.later(PACE_MS))
    assert replicas.only(replicas.done(made), ReplyFetch).end_offset == 11


def test_nobody_waits_longer_or_gets_more_than_a_bound() -> None:
    made = leading()
    greedy = replace(fetch(at=(11, 5), replica=None, wait_ms=2**31 - 1), size_bytes_max=2**31 - 1)
    assert replicas.ask(made, greedy) == []
    (parked,) = made.parked.take_all()
    assert parked.deadline_ms == replicas.NOW.mono_ms + WAIT_MS_MAX
    served = replicas.only(
        replicas.ask(made, replace(greedy, fetch_offset=types.Offset(10), last_fetched_epoch=types.Epoch(3))),
        ReplyFetch,
    )
    assert served.size_bytes_max == ANSWER_SIZE_BYTES_MAX


@pytest.mark.conformance(48)
def test_a_voters_fetch_acknowledges_what_is_below_it() -> None:
    made = leading()
    found = replicas.ask(made, fetch(at=(11, 5)))
    assert replicas.only(found, NotifyHighWatermark).high_watermark == 11
    assert state_of(made).high_watermark == 11
    voter = state_of(made).progress.voters[types.NodeId(2)]
    assert (voter.end_offset, voter.fetched_mono_ms) == (11, replicas.NOW.mono_ms)


@pytest.mark.parametrize(
    "request_",
    [
        fetch(at=(11, 5), replica=4),
        fetch(at=(11, 5), replica=types.ReplicaKey(types.NodeId(2), replicas.directory(9))),
        fetch(at=(11, 5), replica=types.ReplicaKey(types.NodeId(2))),
        fetch(at=(11, 5), replica=None),
        fetch(at=(11, 4)),
        fetch(at=(12, 5)),
        fetch(at=(9, 1)),
    ],
)
def test_observers_and_logs_that_part_acknowledge_nothing(request_: messages.FetchRequest) -> None:
    made = leading()
    replicas.ask(made, request_)
    assert state_of(made).high_watermark is None
    assert state_of(made).progress.voters[types.NodeId(2)].end_offset is None
    assert state_of(made).fetched_voters == set()


@pytest.mark.conformance(46, "H20")
def test_an_observer_is_remembered_and_one_without_id_leaves_no_trace() -> None:
    made = leading()
    replicas.ask(made, fetch(at=(11, 5), replica=None))
    assert state_of(made).progress.observers(replicas.NOW) == []
    replicas.ask(made, fetch(at=(11, 5), replica=4))
    assert [(seen.key, seen.end_offset) for seen in state_of(made).progress.observers(replicas.NOW)] == [
        (replicas.key(4), 11)
    ]


@pytest.mark.conformance(15, 93)
@pytest.mark.parametrize(("voters", "needed"), [(2, 1), (3, 1), (4, 2), (5, 2)])
def test_a_majority_with_the_leader_keeps_it_in_office(voters: int, needed: int) -> None:
    made = leading(voters=voters)
    before_ms = state_of(made).check_quorum_deadline_ms
    for node_id in range(2, 2 + needed):
        assert state_of(made).check_quorum_deadline_ms == before_ms
        note_sign_of_life(made, state_of(made), replicas.key(node_id), replicas.later(70))
    assert state_of(made).check_quorum_deadline_ms == replicas.NOW.mono_ms + 70 + 3_000
    assert state_of(made).fetched_voters == set()


def test_the_same_voter_twice_is_no_majority() -> None:
    made = leading(voters=5)
    for _ in range(2):
        note_sign_of_life(made, state_of(made), replicas.key(2), replicas.later(70))
    assert state_of(made).fetched_voters == {2}


@pytest.mark.conformance(15, 93)
def test_who_is_no_voter_keeps_nobody_in_office() -> None:
    made = leading()
    before_ms = state_of(made).check_quorum_deadline_ms
    for other in (replicas.key(4), types.ReplicaKey(types.NodeId(2), replicas.directory(9))):
        note_sign_of_life(made, state_of(made), other, replicas.later(70))
    assert state_of(made).check_quorum_deadline_ms == before_ms
    assert replicas.done(made) == []


@pytest.mark.conformance(48)
@pytest.mark.parametrize("at", [(11, 5), (10, 3), (8, 3)])
def test_whoever_fetches_knows_who_leads(at: tuple[int, int]) -> None:
    made = leading()
    replicas.ask(made, fetch(at=at, replica=3), replicas.later(500))
    poll(made, replicas.later(1_000))
    assert replicas.sent(replicas.done(made)) == [(2, "BeginQuorumEpochRequest")]


@pytest.mark.conformance(50)
@pytest.mark.parametrize("at", [(11, 4), (12, 5), (8, 1)])
def test_a_log_that_parts_is_told_at_once_however_long_it_would_wait(at: tuple[int, int]) -> None:
    made = leading()
    answered = replicas.only(replicas.ask(made, fetch(at=at, wait_ms=30_000)), ReplyFetch)
    assert answered.message.diverging is not None
    assert made.parked.take_all() == []


@pytest.mark.conformance(46)
def test_a_voter_that_fetches_from_further_back_lowers_its_row_and_nothing_else() -> None:
    made = leading()
    replicas.ask(made, fetch(at=(11, 5)))
    replicas.ask(made, fetch(at=(10, 3)))
    assert (state_of(made).progress.voters[types.NodeId(2)].end_offset, state_of(made).high_watermark) == (10, 11)


@pytest.mark.conformance(42)
def test_a_fetch_that_waits_is_answered_by_an_append_and_by_a_new_leader() -> None:
    made = replicas.replica(replicas.leader())
    assert replicas.ask(made, fetch(at=(10, 3), replica=None)) == []
    on_proposed(made, Proposed(handle=1, epoch=types.Epoch(5), count=2, size_bytes=9), replicas.NOW)
    assert isinstance(made.state, Leader)
    drain_if_due(made, made.state, replicas.NOW)
    served = replicas.only(replicas.done(made), ReplyFetch)
    assert (served.request_id, served.fetch_offset, served.end_offset) == (7, 10, 12)
    replicas.ask(made, fetch(at=(12, 5), replica=None))
    found = replicas.answer(made, begun(epoch=6, leader_id=2, error=ErrorCode.FENCED_LEADER_EPOCH), peer_id=2)
    refused = replicas.only(found, Reply).message
    assert isinstance(refused, messages.FetchResponse)
    assert (refused.error, refused.epoch, refused.leader_id) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 6, 2)


STATIC = types.VoterSet.of(
    types.Voter(key=types.ReplicaKey(types.NodeId(each)), listeners=replicas.listeners(each)) for each in (1, 2, 3)
)


def alarms(found: list[Effect]) -> list[str]:
    return [effect.text for effect in found if isinstance(effect, Report) and effect.is_alarm]


def other(node_id: int, number: int = 9) -> types.ReplicaKey:
    """This node's id in another directory."""
    return types.ReplicaKey(types.NodeId(node_id), replicas.directory(number))


def test_two_processes_with_the_id_of_a_static_voter_are_told_once_and_only_the_first_counts() -> None:
    made = replicas.replica(replicas.leader(voters=STATIC), voters=STATIC)
    assert alarms(replicas.ask(made, fetch(at=(9, 3)))) == []
    (alarm,) = alarms(replicas.ask(made, fetch(replica=other(2))))
    assert "TWO PROCESSES HAVE THE NODE ID 2" in alarm
    assert f"the directory {types.uuid_text(replicas.directory(2))} counts as that voter in epoch 5" in alarm
    assert f"the directory {types.uuid_text(replicas.directory(9))} fetches in its name" in alarm
    assert alarms(replicas.ask(made, fetch(replica=other(2)))) == []
    assert state_of(made).progress.voters[types.NodeId(2)].end_offset == 9
    assert len(alarms(replicas.ask(made, fetch(replica=other(2, 8))))) == 1, "a third one"


def test_a_process_with_the_id_of_the_leader_is_told() -> None:
    made = leading()
    found = replicas.ask(made, fetch(replica=other(1)))
    assert error_of(found) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "TWO PROCESSES HAVE THE NODE ID 1" in alarms(found)[0]
    (alarm,) = alarms(replicas.ask(made, fetch(replica=types.ReplicaKey(types.NodeId(1)))))
    assert "an unknown directory fetches in its name" in alarm


def test_a_voter_that_fetches_below_what_it_acknowledged_is_told_once() -> None:
    made = leading()
    assert alarms(replicas.ask(made, fetch(at=(10, 3)))) == []
    (alarm,) = alarms(replicas.ask(made, fetch(at=(9, 3))))
    assert "voter 2 fetches from offset 9, but has acknowledged everything below 10 in epoch 5" in alarm
    assert alarms(replicas.ask(made, fetch(at=(8, 3)))) == []
    assert alarms(replicas.ask(made, fetch(at=(10, 3), replica=3))) == []
    assert len(alarms(replicas.ask(made, fetch(at=(9, 3), replica=3)))) == 1


def test_a_fetch_that_is_older_than_the_one_that_waits_says_nothing_new() -> None:
    made = leading()
    assert replicas.ask(made, fetch(at=(11, 5))) != []
    assert replicas.ask(made, fetch(at=(11, 5), high_watermark=11)) == []
    assert alarms(replicas.ask(made, fetch(at=(9, 3)))) == []


def test_an_observer_may_fetch_from_anywhere() -> None:
    made = leading()
    replicas.ask(made, fetch(at=(10, 3), replica=7))
    assert alarms(replicas.ask(made, fetch(at=(9, 3), replica=7))) == []


def test_directories_without_end_raise_a_bounded_number_of_alarms() -> None:
    made = leading()
    made_up = (
        types.ReplicaKey(types.NodeId(1), types.Uuid(number.to_bytes(16, "big")))
        for number in range(1, ALARMS_PER_EPOCH_MAX + 9)
    )
    assert sum(len(alarms(replicas.ask(made, fetch(replica=each)))) for each in made_up) == ALARMS_PER_EPOCH_MAX
