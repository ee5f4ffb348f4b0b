"""Which messages raise the epoch: requests only where no leader is heard, answers within bounds, far ones in twos."""

from dataclasses import replace

import pytest

from pykraft.core import messages
from pykraft.core.effects import Effect, Reply, Report, Send
from pykraft.core.epoch_budget import DOUBLINGS_MAX, EPOCHS_AT_ONCE, EPOCHS_PER_DAY, FREE_RAISES
from pykraft.core.events import ResponseReceived
from pykraft.core.on.epoch_raise import ALARM_PERIOD_MS, QUESTIONS_PER_ELECTION_TIMEOUT
from pykraft.core.on.send_requests import QUESTIONS_BEFORE_TURNS, ask_for_votes
from pykraft.core.raft import on_response
from pykraft.core.replica import Replica
from pykraft.core.state import State
from pykraft.errors import ErrorCode
from pykraft.types import EPOCH_MAX, Endpoint, Instant, KRaftVoters, Listeners, NodeId, Offset, Voter, VoterSet
from tests.core import replicas
from tests.core.said import begin, end, vote, voted

FAR = 5 + EPOCHS_AT_ONCE + 1
DAY_MS = 86_400_000
QUESTION_MS = replicas.CONFIG.election_timeout_ms // QUESTIONS_PER_ELECTION_TIMEOUT
BOOTSTRAP = (Endpoint("b", 1), Endpoint("c", 2))


def reports(found: list[Effect]) -> list[Report]:
    return [effect for effect in found if isinstance(effect, Report)]


def error_of(found: list[Effect]) -> int:
    message = replicas.only(found, Reply).message
    assert isinstance(
        message, messages.VoteResponse | messages.BeginQuorumEpochResponse | messages.EndQuorumEpochResponse
    )
    assert message.epoch <= EPOCH_MAX
    return message.error


def answer_epoch(made: Replica, epoch: int, peer_id: int, now: Instant = replicas.NOW) -> list[Effect]:
    """This peer answers that it is in this epoch."""
    return replicas.answer(made, voted(epoch=epoch, error=ErrorCode.FENCED_LEADER_EPOCH), peer_id=peer_id, now=now)


# Rule 1: what requests may raise.


@pytest.mark.parametrize(
    "state", [replicas.unattached(), replicas.follower(has_fetched=True), replicas.leader(), replicas.candidate()]
)
@pytest.mark.parametrize(
    "message",
    [
        vote(epoch=EPOCH_MAX),
        vote(epoch=FAR, pre_vote=True),
        vote(epoch=FAR, candidate=9),
        begin(epoch=FAR),
        begin(epoch=EPOCH_MAX, leader_id=9),
        end(epoch=FAR),
    ],
)
def test_no_request_raises_the_epoch_by_much(state: State, message: messages.Request) -> None:
    made = replicas.replica(state)
    found = replicas.ask(made, message)
    assert (error_of(found), made.epoch, made.refused_epochs) == (ErrorCode.BROKER_NOT_AVAILABLE, 5, 1)
    (alarm,) = reports(found)
    assert alarm.is_alarm
    assert "in the place of 5: refused, since no second voter has told as much" in alarm.text


def test_a_refusal_is_told_once_an_hour() -> None:
    made = replicas.replica(replicas.unattached())
    told = [
        len(reports(replicas.ask(made, vote(epoch=EPOCH_MAX), now=replicas.later(ms))))
        for ms in (0, 1, ALARM_PERIOD_MS - 1, ALARM_PERIOD_MS, ALARM_PERIOD_MS + 1)
    ]
    assert told == [1, 0, 0, 1, 0]
    assert made.refused_epochs == 5


def rising(made: Replica, candidate_id: int, count: int) -> list[bool]:
    """Votes with rising epochs, each a while after the one before; whether each was taken."""
    taken = []
    for number in range(count):
        before = made.epoch
        replicas.ask(made, vote(epoch=before + 1, candidate=candidate_id), now=replicas.later(number))
        taken.append(made.epoch > before)
    return taken


def test_strangers_are_heard_less_and_less() -> None:
    made = replicas.replica(replicas.unattached())
    assert rising(made, 9, FREE_RAISES + 3) == [True] * (FREE_RAISES + 1) + [False, False]
    assert rising(made, 8, 1) == [False]
    assert made.refused_epochs == 3


def test_another_directory_id_makes_a_stranger() -> None:
    made = replicas.replica(replicas.unattached())
    rising(made, 9, FREE_RAISES + 1)
    other = replace(
        vote(epoch=made.epoch + 1), candidate=replace(replicas.key(3), directory_id=replicas.key(9).directory_id)
    )
    assert error_of(replicas.ask(made, other)) == ErrorCode.BROKER_NOT_AVAILABLE


def test_a_pause_is_told() -> None:
    made = replicas.replica(replicas.unattached())
    rising(made, 9, FREE_RAISES)
    found = replicas.ask(made, vote(epoch=made.epoch + 1, candidate=9), now=replicas.later(9))
    assert replicas.only(found, Report).text == (
        "senders that are not voters, such as node 9, raised the epoch again, to 9: for 2000 ms its requests raise "
        "it no more"
    )
    rising(made, 3, FREE_RAISES)
    found = replicas.ask(made, vote(epoch=made.epoch + 1), now=replicas.later(9))
    assert "voter 3 raised the epoch again" in replicas.only(found, Report).text


@pytest.mark.parametrize("candidate_id", [3, 9])
@pytest.mark.parametrize("name", replicas.HEARING)
def test_who_hears_a_leader_yields_to_no_request(name: str, candidate_id: int) -> None:
    made = replicas.replica(replicas.STATES[name]())
    before = made.state
    for message in (vote(candidate=candidate_id), begin(leader_id=candidate_id), end(epoch=6, leader_id=candidate_id)):
        assert error_of(replicas.ask(made, message)) == ErrorCode.BROKER_NOT_AVAILABLE
    assert made.state is before


def test_a_name_of_a_voter_waits_like_any_and_is_forgotten_with_the_voter() -> None:
    made = replicas.replica(replicas.unattached())
    assert rising(made, 3, FREE_RAISES + 2) == [True] * (FREE_RAISES + 1) + [False]
    made.voter_history.voters = replicas.voter_set(1, 2)
    assert rising(made, 2, 1) == [True]
    made.voter_history.voters = replicas.voter_set(1, 2, 3)
    assert rising(made, 3, 1) == [True]


def test_requests_take_no_more_epochs_than_there_are_for_a_day() -> None:
    made = replicas.replica(replicas.unattached())
    assert made.epoch_budget.spend(EPOCHS_PER_DAY, replicas.NOW.mono_ms)
    found = replicas.ask(made, vote())
    assert (error_of(found), made.epoch, made.refused_epochs) == (ErrorCode.BROKER_NOT_AVAILABLE, 5, 1)
    assert "and 1048576 came in a day" in replicas.only(found, Report).text
    assert replicas.only(found, Report).is_alarm
    a_day_later = Instant(mono_ms=replicas.NOW.mono_ms + DAY_MS, wall_ms=0)
    assert error_of(replicas.ask(made, vote(), now=a_day_later)) == ErrorCode.NONE


# Rule 2: the voter that a refused request names is asked.


def questions(found: list[Effect]) -> list[messages.Request]:
    return [effect.message for effect in found if isinstance(effect, Send)]


def test_a_leader_announces_itself_to_the_voter_that_a_request_names() -> None:
    made = replicas.replica(replicas.leader())
    found = replicas.ask(made, vote(candidate=3))
    assert replicas.sent(found) == [(3, "BeginQuorumEpochRequest")]
    (question,) = questions(found)
    assert isinstance(question, messages.BeginQuorumEpochRequest)
    assert (question.epoch, question.voter) == (5, replicas.key(3))


def test_a_follower_asks_with_a_fetch_that_acknowledges_nothing() -> None:
    made = replicas.replica(replicas.follower(has_fetched=True))
    found = replicas.ask(made, vote(candidate=3))
    assert replicas.sent(found) == [(3, "FetchRequest")]
    (question,) = questions(found)
    assert isinstance(question, messages.FetchRequest)
    assert (question.replica, question.epoch, question.wait_ms_max) == (None, 5, 0)


def test_the_next_fetch_of_a_follower_asks_its_leader() -> None:
    made = replicas.replica(replicas.follower(has_fetched=True))
    assert replicas.sent(replicas.ask(made, vote(candidate=2))) == []


def test_a_stranger_is_asked_nothing() -> None:
    made = replicas.replica(replicas.follower(has_fetched=True))
    assert replicas.sent(replicas.ask(made, vote(candidate=9))) == []


def test_one_voter_is_asked_a_few_times_in_an_election_timeout() -> None:
    made = replicas.replica(replicas.leader())
    asked = []
    for ms in (0, QUESTION_MS - 1, QUESTION_MS):
        made.connections.reset()
        asked.append(len(replicas.sent(replicas.ask(made, vote(candidate=3), now=replicas.later(ms)))))
    assert asked == [1, 0, 1]


def test_a_voter_that_does_not_answer_is_believed_now_and_then() -> None:
    """It may have moved: nobody can ask it, and it could not come back otherwise."""
    silence_ms, pause_ms = replicas.CONFIG.request_timeout_ms, 2 * replicas.CONFIG.election_timeout_ms << DOUBLINGS_MAX
    for has_answered in (False, True):
        made = replicas.replica(replicas.follower(has_fetched=True))
        errors = []
        for ms in (0, silence_ms - 1, silence_ms, silence_ms + pause_ms - 1, silence_ms + pause_ms):
            made.connections.reset()
            made.state = replicas.follower(epoch=made.epoch, has_fetched=True)
            errors.append(error_of(replicas.ask(made, vote(epoch=made.epoch + 1, candidate=3), now=replicas.later(ms))))
            if has_answered:
                answer_epoch(made, made.epoch, 3)
        no, yes = ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.NONE
        assert errors == ([no] * 5 if has_answered else [no, no, yes, no, yes])


def test_a_voter_that_could_not_be_asked_is_asked_by_the_next_request() -> None:
    made = replicas.replica(replicas.leader())
    made.connections.sent(3, replicas.NOW.mono_ms)
    assert replicas.sent(replicas.ask(made, vote(candidate=3))) == []
    made.connections.reset()
    assert replicas.sent(replicas.ask(made, vote(candidate=3))) == [(3, "BeginQuorumEpochRequest")]


@pytest.mark.parametrize("name", replicas.HEARING)
def test_the_answer_to_the_question_raises_the_epoch(name: str) -> None:
    made = replicas.replica(replicas.STATES[name]())
    replicas.ask(made, vote(candidate=3))
    answer_epoch(made, 6, 3)
    assert made.epoch == 6


# Rule 3: where an answer has to come from. Rule 4: what one answer may raise.


@pytest.mark.parametrize("peer_id", [2, 3, -2, -3])
def test_an_answer_of_anybody_raises_the_epoch_within_the_budget(peer_id: int) -> None:
    made = replicas.replica(replicas.unattached(), bootstrap=BOOTSTRAP)
    answer_epoch(made, 5 + EPOCHS_AT_ONCE, peer_id)
    assert made.epoch == 5 + EPOCHS_AT_ONCE


@pytest.mark.parametrize(("first_id", "second_id"), [(2, 3), (-2, 3), (3, -3), (-2, -3)])
def test_a_far_epoch_is_believed_when_a_second_endpoint_tells_as_much(first_id: int, second_id: int) -> None:
    made = replicas.replica(replicas.unattached(), bootstrap=BOOTSTRAP)
    more = FAR + EPOCHS_AT_ONCE
    alarm = replicas.only(answer_epoch(made, more, first_id), Report)
    assert alarm.is_alarm
    assert f"tells epoch {more}, and this node is in 5: refused" in alarm.text
    assert (made.epoch, made.refused_epochs, made.connections.is_backing_off(first_id)) == (5, 1, True)
    answer_epoch(made, more, first_id)
    assert made.epoch == 5, "the same endpoint twice"
    answer_epoch(made, FAR, second_id)
    assert (made.epoch, made.epoch_budget.told) == (FAR, {})


def test_two_flipped_bits_do_not_confirm_each_other() -> None:
    """Seeds 346 and 376 of the simulator's scenario flipped."""
    made = replicas.replica(replicas.unattached(), bootstrap=BOOTSTRAP)
    answer_epoch(made, FAR + EPOCHS_AT_ONCE + 1, 2)
    answer_epoch(made, FAR, 3)
    assert made.epoch == 5
    answer_epoch(made, FAR + 1, 2)
    answer_epoch(made, FAR, 3)
    assert made.epoch == FAR, "the newest word of each endpoint counts"


def test_a_second_endpoint_that_tells_more_has_to_be_confirmed_itself() -> None:
    made = replicas.replica(replicas.unattached())
    answer_epoch(made, FAR, 2)
    answer_epoch(made, FAR + 1, 3)
    assert made.epoch == 5
    answer_epoch(made, FAR + 1, 2)
    assert made.epoch == FAR + 1


def test_a_leader_that_is_followed_where_it_should_be_counts_too() -> None:
    made = replicas.replica(replicas.follower())
    answer_epoch(made, FAR, 2)
    answer_epoch(made, FAR, 3)
    assert made.epoch == FAR


def test_a_voter_that_was_asked_at_its_former_endpoint_is_no_second_one() -> None:
    """Seed 126 of all,forged: a stranger at the newest endpoint of voter 3 was heard as voter 3 at the former one."""
    made = replicas.replica(replicas.candidate())
    moved = VoterSet.of([*replicas.voter_set(1, 2).voters, Voter(key=replicas.key(3), listeners=replicas.listeners(4))])
    for at, voters in enumerate((moved, replicas.voter_set(1, 2, 3))):
        made.voter_history.record(Offset(at), KRaftVoters(voters))
    answer_epoch(made, FAR, 2)
    made.connections.pre_votes_asked[NodeId(3)] = QUESTIONS_BEFORE_TURNS + 1
    made.connections.reset()
    ask_for_votes(made, replicas.candidate(), replicas.NOW)
    (asked,) = [one for one in replicas.done(made) if isinstance(one, Send) and one.peer.id == 3]
    assert asked.peer.endpoint == Endpoint("n4", 9_004)
    assert made.connections.received(3, asked.correlation_id)
    message = voted(epoch=FAR, error=ErrorCode.FENCED_LEADER_EPOCH)
    on_response(made, ResponseReceived(peer_id=3, correlation_id=asked.correlation_id, message=message), replicas.NOW)
    assert made.epoch == 5


def test_what_a_former_voter_told_counts_no_more() -> None:
    made = replicas.replica(replicas.unattached())
    answer_epoch(made, FAR, 3)
    made.voter_history.voters = replicas.voter_set(1, 2, 4)
    answer_epoch(made, FAR, 2)
    assert made.epoch == 5


@pytest.mark.parametrize(
    ("state", "peer_id"),
    [
        (replicas.follower(leader_id=9), 9),
        (replace(replicas.follower(), leader_listeners=replicas.listeners(9)), 2),
        (replicas.prospective(), 9),
        (replicas.unattached(), -4),
    ],
)
def test_an_answer_from_elsewhere_confirms_nothing(state: State, peer_id: int) -> None:
    made = replicas.replica(state, bootstrap=BOOTSTRAP)
    assert f"an answer of peer {peer_id} tells" in replicas.only(answer_epoch(made, FAR, peer_id), Report).text
    assert (made.epoch_budget.told, made.connections.is_backing_off(peer_id)) == ({}, True)
    answer_epoch(made, FAR, 3)
    assert made.epoch == 5
    answer_epoch(made, 6, peer_id)
    assert made.epoch == 6


def test_answers_within_a_spent_budget_have_to_be_confirmed() -> None:
    made = replicas.replica(replicas.unattached())
    assert made.epoch_budget.spend(EPOCHS_PER_DAY, replicas.NOW.mono_ms)
    answer_epoch(made, 6, 2)
    assert made.epoch == 5
    answer_epoch(made, 6, 3)
    assert made.epoch == 6


@pytest.mark.parametrize(("first_id", "other_id"), [(2, 3), (-2, 2)])
def test_a_new_replica_joins_a_quorum_of_any_epoch_without_an_alarm(first_id: int, other_id: int) -> None:
    made = replicas.replica(replicas.unattached(epoch=0), local_id=7, bootstrap=BOOTSTRAP)
    assert reports(answer_epoch(made, EPOCH_MAX, first_id)) == []
    assert (made.epoch, made.refused_epochs) == (0, 1)
    answer_epoch(made, EPOCH_MAX, other_id)
    assert made.epoch == EPOCH_MAX


def test_an_observer_that_knows_one_endpoint_asks_there_twice() -> None:
    somewhere = VoterSet.of([Voter(key=replicas.key(2), listeners=Listeners())])
    made = replicas.replica(replicas.unattached(epoch=0), local_id=7, voters=somewhere, bootstrap=BOOTSTRAP[:1])
    answer_epoch(made, FAR, -2)
    assert made.epoch == 0
    answer_epoch(made, FAR, -2)
    assert made.epoch == FAR


def test_one_of_two_voters_with_records_believes_no_far_epoch_of_the_other() -> None:
    made = replicas.replica(replicas.unattached(), voters=replicas.voter_set(1, 2))
    for _ in range(3):
        answer_epoch(made, FAR, 2)
    assert made.epoch == 5


def test_a_voter_without_endpoint_is_never_where_it_should_be() -> None:
    unknown = VoterSet.of([*replicas.voter_set(1, 2).voters, Voter(key=replicas.key(3), listeners=Listeners())])
    made = replicas.replica(replicas.unattached(), voters=unknown)
    answer_epoch(made, FAR, 3)
    assert made.epoch_budget.told == {}
