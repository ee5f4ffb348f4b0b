"""An unproven replica: what it refuses, which voters it asks, and what proves it.

It is 1 of three voters in epoch 5 and follows 2, with the log of `replicas` that ends at 10 in epoch 3, or none.
"""

from dataclasses import replace

import pytest

from pykraft.config import RaftConfig
from pykraft.core import messages
from pykraft.core.effects import NoteProof, Reply, Report, Send
from pykraft.core.events import ResponseReceived, SendFailed
from pykraft.core.log_view import LogView
from pykraft.core.on.proof import ROUNDS_PER_ELECTION_TIMEOUT, settle_proof, survey_deadline_ms
from pykraft.core.on.send_requests import PROBE_OFFSET
from pykraft.core.on.timer import next_deadline_ms, poll
from pykraft.core.proof import NO_EPOCH, Survey
from pykraft.core.raft import on_response, on_send_failed
from pykraft.core.replica import Replica
from pykraft.core.state import Candidate, Follower, State, Unattached
from pykraft.core.voter_history import VoterHistory
from pykraft.errors import ErrorCode
from pykraft.types import Epoch, Instant, Io, NodeId, Offset, ReportKind, VoterSet
from tests.core import replicas
from tests.core.said import batch, begin, begun, fetched, place, vote, voted

OTHERS = frozenset({NodeId(2), NodeId(3)})


def empty_log() -> LogView:
    return LogView(start_offset=Offset(0), end_offset=Offset(0))


def unproven(
    state: State | None = None,
    *,
    is_empty: bool = False,
    survey: Survey | None = None,
    voters: VoterSet | None = None,
    config: RaftConfig | None = None,
) -> Replica:
    log = empty_log() if is_empty else None
    made = replicas.replica(
        state or replicas.follower(), log=log, voters=voters, config=config or RaftConfig(append_linger_ms=0)
    )
    made.survey = survey or Survey(has_fresh_id=False)
    return made


def surveyed(**more: object) -> Survey:
    return replace(Survey(has_fresh_id=False, others=OTHERS, epoch=Epoch(5)), **more)  # type: ignore[arg-type]


def in_epoch_5(made: Replica) -> Replica:
    """The last record of its log, at 9, is of the epoch of its leader."""
    made.log.lose_from(Offset(9))
    made.log.append(base_offset=Offset(9), end_offset=Offset(10), epoch=Epoch(5))
    made.log.submit(Io(1))
    made.log.persist(Io(1))
    return made


def pre_vote(end: tuple[int, int] = (0, 0)) -> messages.VoteRequest:
    return vote(epoch=5, end=end, pre_vote=True)


def replied(made: Replica, request: messages.Request) -> messages.Response:
    return replicas.only(replicas.ask(made, request), Reply).message


def test_it_grants_no_vote_to_anybody() -> None:
    made = unproven(replicas.unattached(), is_empty=True)
    reply = replied(made, vote(epoch=6))
    assert isinstance(reply, messages.VoteResponse)
    assert (reply.error, reply.vote_granted) == (0, False)


@pytest.mark.parametrize(
    ("is_empty", "end", "error", "granted"),
    [
        (True, (0, 0), 0, True),
        (False, (0, 0), int(ErrorCode.INVALID_VOTER_KEY), False),
        (True, (20, 4), 0, False),
        (False, (20, 4), 0, False),
    ],
)
def test_it_grants_a_pre_vote_to_an_empty_log_only(
    is_empty: bool, end: tuple[int, int], error: int, granted: bool
) -> None:
    """Its denial of an empty log's is an error: another unproven replica must not take its epoch for one it kept."""
    reply = replied(unproven(replicas.unattached(), is_empty=is_empty), pre_vote(end))
    assert isinstance(reply, messages.VoteResponse)
    assert (reply.error, reply.vote_granted) == (error, granted)


def test_a_proven_replica_votes_above_the_epoch_that_was_answered_only() -> None:
    for epoch, granted in ((5, False), (6, True)):
        made = replicas.replica(replicas.unattached(epoch=4))
        made.votes_above = Epoch(5)
        reply = replied(made, vote(epoch=epoch))
        assert isinstance(reply, messages.VoteResponse)
        assert reply.vote_granted is granted


def test_it_follows_a_leader_that_announces_itself_and_confirms_nothing() -> None:
    made = unproven(replicas.unattached())
    reply = replied(made, begin(epoch=6))
    assert isinstance(reply, messages.BeginQuorumEpochResponse)
    assert reply.error == ErrorCode.INVALID_VOTER_KEY
    assert isinstance(made.state, Follower)


@pytest.mark.parametrize("state", [replicas.unattached(), replicas.follower()])
def test_it_does_not_campaign(state: State) -> None:
    made = unproven(state, is_empty=True)
    poll(made, replicas.later(60_000))
    assert type(made.state) is type(state)
    assert not made.may_campaign


def test_it_fetches_without_its_id_and_tells_nothing_of_a_voter() -> None:
    made = unproven(
        replace(replicas.follower(), update_deadline_ms=replicas.NOW.mono_ms),
        survey=surveyed(asked=OTHERS, round_deadline_ms=replicas.LATER_MS),
    )
    poll(made, replicas.NOW)
    fetches = [
        one.message
        for one in replicas.done(made)
        if isinstance(one, Send) and isinstance(one.message, messages.FetchRequest)
    ]
    assert [(each.replica, each.fetch_offset) for each in fetches] == [(None, 10)]


def test_it_asks_each_voter_once_a_round_and_says_for_whom_it_waits() -> None:
    made = unproven(replicas.unattached(), is_empty=True)
    poll(made, replicas.NOW)
    found = replicas.done(made)
    assert {(node_id, what) for node_id, what in replicas.sent(found) if what == "VoteRequest"} == {
        (2, "VoteRequest"),
        (3, "VoteRequest"),
    }
    asked = [one.message for one in found if isinstance(one, Send) and isinstance(one.message, messages.VoteRequest)]
    assert all((each.last, each.pre_vote, each.epoch) == (place(0, 0), True, 5) for each in asked)
    round_ms = made.config.election_timeout_ms // ROUNDS_PER_ELECTION_TIMEOUT
    assert survey_deadline_ms(made) == replicas.NOW.mono_ms + round_ms
    assert next_deadline_ms(made) is not None
    replicas.answer(made, voted(granted=True))
    made.connections.reset()
    poll(made, replicas.later(round_ms))
    report = replicas.only(replicas.done(made), Report)
    assert "until it has heard from node 3:" in report.text
    assert (report.is_alarm, report.kind) == (False, ReportKind.UNPROVEN)
    made.connections.reset()
    poll(made, replicas.later(2 * round_ms))
    assert "Report" not in replicas.kinds(replicas.done(made))
    made.survey = replace(surveyed(told=frozenset({NodeId(2)})), round_deadline_ms=replicas.NOW.mono_ms)
    poll(made, replicas.later(3 * round_ms))
    report = replicas.only(replicas.done(made), Report)
    assert (report.is_alarm, report.kind) == (True, ReportKind.UNPROVEN)


def test_it_asks_nobody_twice_in_a_round_nor_while_an_answer_is_due_nor_when_it_leaves() -> None:
    made = unproven(replicas.unattached(), is_empty=True, survey=surveyed())
    made.connections.sent(2, replicas.NOW.mono_ms)
    poll(made, replicas.NOW)
    assert replicas.sent(replicas.done(made)) == [(3, "VoteRequest")]
    assert made.survey is not None
    assert made.survey.asked == {3}
    made.shutdown_deadline_ms = replicas.LATER_MS
    assert survey_deadline_ms(made) is None
    made.connections.reset()
    poll(made, replicas.NOW)
    assert "VoteRequest" not in [what for _, what in replicas.sent(replicas.done(made))]


def test_when_all_are_empty_it_takes_part_and_votes_in_later_epochs() -> None:
    made = unproven(replicas.unattached(), is_empty=True)
    poll(made, replicas.NOW)
    for voter_id in (2, 3):
        replicas.answer(made, voted(granted=True), peer_id=voter_id)
    poll(made, replicas.NOW)
    assert replicas.only(replicas.done(made), NoteProof).votes_above == 5
    assert (made.survey, made.votes_above) == (None, 5)


def test_its_own_log_must_be_empty_for_that() -> None:
    made = unproven(survey=surveyed(empty=OTHERS))
    settle_proof(made, replicas.NOW)
    assert made.survey is not None


def test_answers_of_another_epoch_or_voter_set_do_not_count() -> None:
    made = unproven(
        replicas.unattached(epoch=6), is_empty=True, survey=surveyed(empty=OTHERS, told=OTHERS, blocked_epoch=Epoch(5))
    )
    settle_proof(made, replicas.NOW)
    assert made.survey == surveyed(epoch=Epoch(6), blocked_epoch=Epoch(5))
    made.voter_history = VoterHistory(replicas.voter_set(1, 2))
    settle_proof(made, replicas.NOW)
    assert made.survey == Survey(has_fresh_id=False, others=frozenset({NodeId(2)}), epoch=Epoch(6))
    replicas.answer(made, voted(epoch=6), peer_id=3)
    assert made.survey.empty == frozenset()


def test_an_answer_that_came_with_a_newer_epoch_does_not_count_and_one_without_a_survey_does_no_harm() -> None:
    made = unproven(replicas.unattached(), is_empty=True, survey=surveyed(epoch=Epoch(4)))
    replicas.answer(made, voted(granted=False))
    assert made.survey is not None
    assert made.survey.told == frozenset()
    made.survey = None
    replicas.answer(made, voted(granted=False))


def test_a_denial_takes_back_a_grant_and_enough_of_them_block() -> None:
    made = unproven(survey=surveyed(empty=frozenset({NodeId(2)})))
    replicas.answer(made, voted(granted=False))
    assert made.survey == surveyed(told=frozenset({NodeId(2)}))
    replicas.answer(made, voted(granted=False), peer_id=3)
    assert made.survey == surveyed(told=OTHERS, blocked_epoch=Epoch(5))
    replicas.answer(made, voted(granted=False), peer_id=3)
    assert made.survey == surveyed(told=OTHERS, blocked_epoch=Epoch(5))


def test_an_error_tells_nothing() -> None:
    made = unproven(survey=surveyed())
    replicas.answer(made, voted(granted=False, error=int(ErrorCode.INVALID_VOTER_KEY)), peer_id=3)
    assert made.survey == surveyed()


def test_a_voter_without_pre_votes_is_remembered() -> None:
    made = unproven(survey=surveyed())
    for expected in (True, False):
        correlation_id = made.connections.sent(3, replicas.NOW.mono_ms)
        failed = SendFailed(peer_id=3, correlation_id=correlation_id, error=int(ErrorCode.UNSUPPORTED_VERSION))
        on_send_failed(made, failed, replicas.NOW)
        assert (made.survey is not None and made.survey.has_old_voter) is expected
        made.connections.reset()
        made.survey = None


def test_nobody_can_know_a_fresh_directory_id() -> None:
    made = unproven(replicas.unattached(), survey=Survey(has_fresh_id=True), voters=replicas.voter_set(2, 3))
    settle_proof(made, replicas.NOW)
    assert replicas.only(replicas.done(made), NoteProof).votes_above == NO_EPOCH
    assert made.survey is None
    named = unproven(replicas.unattached(), survey=Survey(has_fresh_id=False), voters=replicas.voter_set(2, 3))
    settle_proof(named, replicas.NOW)
    assert named.survey is not None


def test_once_all_have_told_it_asks_the_leader_where_its_log_ends() -> None:
    made = in_epoch_5(unproven(survey=surveyed(told=OTHERS, blocked_epoch=Epoch(5))))
    poll(made, replicas.NOW)
    (probe,) = [one for one in replicas.done(made) if isinstance(one, Send)]
    assert isinstance(probe.message, messages.FetchRequest)
    assert (probe.message.replica, probe.message.fetch_offset, probe.message.wait_ms_max) == (None, PROBE_OFFSET, 0)
    assert probe.message.last_fetched_epoch == 5
    told = fetched(epoch=5, leader_id=2, diverging=(12, 5))
    receive(made, probe, told)
    assert made.survey is not None
    assert (made.survey.is_probed, made.survey.until_offset) == (True, 12)
    assert made.log.end_offset == 10
    poll(made, replicas.NOW)
    (fetch,) = [one for one in replicas.done(made) if isinstance(one, Send)]
    receive(made, fetch, fetched(batch(10, 12, epoch=5), epoch=5, leader_id=2))
    assert made.survey is not None
    made.log.persist(Io(made.log.unflushed_count + 100))
    poll(made, replicas.NOW)
    (fetch,) = [one for one in replicas.done(made) if isinstance(one, Send)]
    receive(made, fetch, fetched(batch(12, 13, epoch=5), epoch=5, leader_id=2))
    assert made.survey is None
    assert made.votes_above == 5


def receive(made: Replica, asked: Send, message: messages.Response) -> None:
    assert made.connections.received(asked.peer.id, asked.correlation_id)
    event = ResponseReceived(peer_id=asked.peer.id, correlation_id=asked.correlation_id, message=message)
    on_response(made, event, replicas.NOW)


@pytest.mark.parametrize("diverging", [None, (12, 4)])
def test_a_leader_that_does_not_say_it_is_not_asked_again(diverging: tuple[int, int] | None) -> None:
    made = in_epoch_5(unproven(survey=surveyed(told=OTHERS, blocked_epoch=Epoch(5))))
    poll(made, replicas.NOW)
    (probe,) = [one for one in replicas.done(made) if isinstance(one, Send)]
    receive(made, probe, fetched(epoch=5, leader_id=2, diverging=diverging))
    assert made.survey is not None
    assert (made.survey.is_probed, made.survey.until_offset) == (True, None)


@pytest.mark.parametrize(
    ("survey", "is_newest", "has_more", "is_proven"),
    [
        (surveyed(told=OTHERS), True, False, True),
        (surveyed(told=OTHERS), True, True, False),
        (surveyed(told=OTHERS, until_offset=Offset(10)), True, True, True),
        (surveyed(told=OTHERS, until_offset=Offset(11)), True, True, False),
        (surveyed(told=OTHERS), False, False, False),
        (surveyed(told=frozenset({NodeId(2)})), True, False, False),
        (surveyed(told=OTHERS, epoch=Epoch(4)), True, False, False),
        (surveyed(blocked_epoch=Epoch(4)), True, True, True),
        (surveyed(blocked_epoch=Epoch(5)), True, False, False),
        (surveyed(blocked_epoch=Epoch(4)), False, False, False),
        (surveyed(blocked_epoch=Epoch(4), has_old_voter=True), True, True, False),
    ],
)
def test_what_is_a_proof(survey: Survey, is_newest: bool, has_more: bool, is_proven: bool) -> None:
    made = unproven(survey=survey)
    if is_newest:
        in_epoch_5(made)
    batches = (batch(10, 11, epoch=5),) if has_more else ()
    found = replicas.answer(made, fetched(*batches, epoch=5, leader_id=2))
    assert (made.survey is None) is is_proven
    assert ("NoteProof" in replicas.kinds(found)) is is_proven


def test_what_is_not_durable_proves_nothing() -> None:
    made = in_epoch_5(unproven(survey=surveyed(told=OTHERS)))
    made.log.append(base_offset=Offset(10), end_offset=Offset(11), epoch=Epoch(5))
    made.log.submit(Io(7))
    replicas.answer(made, fetched(epoch=5, leader_id=2))
    assert made.survey is not None


def test_its_first_fetch_with_its_id_waits_until_the_proof_is_durable() -> None:
    made = in_epoch_5(unproven(survey=surveyed(told=OTHERS, is_probed=True)))
    correlation_id = made.connections.sent(2, replicas.NOW.mono_ms)
    assert made.connections.received(2, correlation_id)
    event = ResponseReceived(peer_id=2, correlation_id=correlation_id, message=fetched(epoch=5, leader_id=2))
    on_response(made, event, replicas.NOW)
    poll(made, replicas.NOW)
    found = replicas.done(made)
    fetch = replicas.only(found, Send)
    assert isinstance(fetch.message, messages.FetchRequest)
    assert fetch.message.replica == replicas.key(1)
    assert fetch.after == replicas.only(found, NoteProof).io


@pytest.mark.parametrize("state", [replicas.unattached(), replicas.follower(), replicas.resigned()])
def test_who_waited_longer_than_a_timeout_begins_a_new_one(state: State) -> None:
    made = unproven(state, is_empty=True, survey=surveyed(empty=OTHERS))
    now = Instant(mono_ms=replicas.LATER_MS + 1, wall_ms=0)
    settle_proof(made, now)
    assert made.survey is None
    if isinstance(made.state, Unattached):
        assert made.state.election_deadline_ms > now.mono_ms
    elif isinstance(made.state, Follower):
        assert made.state.fetch_deadline_ms == now.mono_ms + made.config.fetch_timeout_ms


@pytest.mark.parametrize("state", [replicas.unattached(), replicas.follower()])
def test_a_timeout_that_is_not_over_goes_on(state: State) -> None:
    made = unproven(state, is_empty=True, survey=surveyed(empty=OTHERS))
    settle_proof(made, replicas.NOW)
    assert made.state == state


def test_a_leader_counts_no_confirmation_of_an_unproven_voter() -> None:
    made = replicas.replica(replicas.leader())
    assert replicas.answer(made, begun(error=int(ErrorCode.INVALID_VOTER_KEY))) == []
    assert made.connections.is_backing_off(2)
    assert not isinstance(made.state, Candidate)
