"""Vote and PreVote: the checks in order, which state grants what, and what answers decide."""

from dataclasses import replace

import pytest

from pykraft.core import messages
from pykraft.core.effects import Effect, RejectProposal, Reply, WriteElectionState
from pykraft.core.epoch_budget import EPOCHS_BY_REQUESTS
from pykraft.core.events import RequestReceived
from pykraft.core.on.vote import on_vote_request, would_grant_pre_vote, would_grant_vote
from pykraft.core.state import Candidate, Follower, Leader, Prospective, State, Unattached
from pykraft.errors import ErrorCode, ProtocolError
from pykraft.types import EPOCH_MAX, NO_IO, Listeners, NodeId, ReplicaKey
from tests.core import replicas
from tests.core.said import begun, vote, voted

OTHER_DIRECTORY = ReplicaKey(NodeId(1), replicas.directory(9))


def replied(found: list[Effect]) -> messages.VoteResponse:
    message = replicas.only(found, Reply).message
    assert isinstance(message, messages.VoteResponse)
    return message


@pytest.mark.conformance(29, 32, 34, 61, 63)
@pytest.mark.parametrize(
    ("request_", "error", "epoch"),
    [
        (vote(end=(-1, 0)), ErrorCode.INVALID_REQUEST, 5),
        (vote(end=(1, -1)), ErrorCode.INVALID_REQUEST, 5),
        (vote(end=(1, 6)), ErrorCode.INVALID_REQUEST, 5),
        (vote(end=(1, 7), pre_vote=True), ErrorCode.INVALID_REQUEST, 5),
        (vote(epoch=4, end=(-1, 0)), ErrorCode.INVALID_REQUEST, 5),
        (vote(epoch=-1, end=(0, 0)), ErrorCode.INVALID_REQUEST, 5),
        (vote(epoch=4), ErrorCode.FENCED_LEADER_EPOCH, 5),
        (vote(epoch=4, candidate=-1), ErrorCode.FENCED_LEADER_EPOCH, 5),
        (vote(epoch=4, voter=OTHER_DIRECTORY), ErrorCode.FENCED_LEADER_EPOCH, 5),
        (vote(candidate=-1), ErrorCode.INVALID_REQUEST, 5),
        (vote(epoch=EPOCH_MAX + 1), ErrorCode.INVALID_REQUEST, 5),
        (vote(candidate=-1, voter=OTHER_DIRECTORY), ErrorCode.INVALID_REQUEST, 5),
        (vote(voter=OTHER_DIRECTORY), ErrorCode.INVALID_VOTER_KEY, 6),
        (vote(voter=replicas.key(2)), ErrorCode.INVALID_VOTER_KEY, 6),
        (vote(voter=replicas.key(1)), ErrorCode.NONE, 6),
        (vote(voter=ReplicaKey(NodeId(1))), ErrorCode.NONE, 6),
        (vote(end=(10, 6), pre_vote=True), ErrorCode.NONE, 6),
        (vote(epoch=3 + EPOCHS_BY_REQUESTS), ErrorCode.NONE, 3 + EPOCHS_BY_REQUESTS),
        (vote(epoch=4 + EPOCHS_BY_REQUESTS), ErrorCode.BROKER_NOT_AVAILABLE, 5),
        (vote(epoch=EPOCH_MAX), ErrorCode.BROKER_NOT_AVAILABLE, 5),
    ],
)
def test_checks_come_in_their_order_and_the_voters_key_after_the_epoch(
    request_: messages.VoteRequest, error: ErrorCode, epoch: int
) -> None:
    made = replicas.replica(replicas.unattached())
    before = made.state
    response = replied(replicas.ask(made, request_))
    assert (response.error, response.epoch, made.epoch) == (error, epoch, epoch)
    assert (made.state is before) == (epoch == 5)
    assert not (response.error and response.vote_granted)


GRANTS = {  # state: standard vote of the epoch to 3, pre-vote
    "unattached": (True, True),
    "unattached-voted": (True, True),
    "unattached-led": (False, True),
    "prospective": (True, True),
    "prospective-voted": (True, True),
    "prospective-led": (False, True),
    "candidate": (False, True),
    "leader": (False, False),
    "follower": (False, True),
    "follower-fetched": (False, False),
    "resigned": (False, True),
}


@pytest.mark.conformance(26, 27, 56, 58, 59, 61, 62, 73, 88, "H4", "H5", "H6", "H12", "H37")
@pytest.mark.parametrize("pre_vote", [False, True])
@pytest.mark.parametrize("name", replicas.STATES)
def test_who_grants_within_the_epoch(name: str, pre_vote: bool) -> None:
    made = replicas.replica(replicas.STATES[name]())
    before = made.state
    found = replicas.ask(made, vote(epoch=5, pre_vote=pre_vote))
    response = replied(found)
    assert response.vote_granted == GRANTS[name][pre_vote]
    assert (response.error, response.epoch, response.leader_id) == (0, 5, made.leader_id)
    casts = GRANTS[name][0] and not pre_vote and not name.endswith("voted")
    assert ("WriteElectionState" in replicas.kinds(found)) == casts
    assert casts or made.state is before
    assert not casts or made.voted == replicas.key(3)


@pytest.mark.conformance(26, "H12")
@pytest.mark.parametrize(
    ("end", "granted"), [((10, 3), True), ((11, 3), True), ((1, 4), True), ((9, 3), False), ((99, 2), False)]
)
@pytest.mark.parametrize("state", [replicas.unattached(), replicas.prospective()])
def test_a_vote_goes_to_a_log_at_least_as_long(state: State, end: tuple[int, int], granted: bool) -> None:
    made = replicas.replica(state)
    assert replied(replicas.ask(made, vote(epoch=5, end=end))).vote_granted == granted
    assert (made.voted is not None) == granted


@pytest.mark.conformance(26, 80)
@pytest.mark.parametrize("state", [replicas.unattached(voted=3), replicas.prospective(voted=3)])
def test_a_vote_is_given_again_to_the_same_candidate_only_whatever_its_log(state: State) -> None:
    made = replicas.replica(state)
    assert replied(replicas.ask(made, vote(epoch=5, end=(0, 0)))).vote_granted
    assert not replied(replicas.ask(made, vote(epoch=5, candidate=2))).vote_granted
    assert made.state is state


@pytest.mark.conformance(92, 94)
def test_a_vote_remembered_without_directory_goes_to_any_with_its_id() -> None:
    assert replied(
        replicas.ask(replicas.replica(replace(replicas.unattached(), voted=ReplicaKey(NodeId(3)))), vote(epoch=5))
    ).vote_granted


@pytest.mark.conformance(27)
@pytest.mark.parametrize("pre_vote", [False, True])
@pytest.mark.parametrize("name", replicas.YIELDING)
def test_a_higher_epoch_is_adopted_whether_or_not_it_is_granted(name: str, pre_vote: bool) -> None:
    made = replicas.replica(replicas.STATES[name]())
    found = replicas.ask(made, vote(epoch=6, end=(9, 3), pre_vote=pre_vote))
    assert isinstance(made.state, Unattached)
    assert (made.epoch, made.voted, replied(found).vote_granted, replied(found).epoch) == (6, None, False, 6)
    assert replicas.only(found, Reply).after == replicas.only(found, WriteElectionState).io


@pytest.mark.conformance(26)
def test_a_grant_waits_for_the_vote_and_a_denial_or_pre_vote_only_for_its_epoch() -> None:
    made = replicas.replica(replicas.unattached())
    made.outbox.persist(replicas.only(replicas.ask(made, vote(epoch=6, pre_vote=True)), WriteElectionState).io)
    found = replicas.ask(made, vote(epoch=6))
    assert replicas.only(found, Reply).after == replicas.only(found, WriteElectionState).io
    assert replicas.only(replicas.ask(made, vote(epoch=6)), Reply).after == replicas.only(found, WriteElectionState).io
    assert replicas.only(replicas.ask(made, vote(epoch=6, candidate=2)), Reply).after == NO_IO
    assert replicas.only(replicas.ask(made, vote(epoch=6, pre_vote=True)), Reply).after == NO_IO


@pytest.mark.parametrize("epoch", [5, 6])
def test_a_candidate_with_this_nodes_id_is_refused_before_its_epoch_is_believed(epoch: int) -> None:
    made = replicas.replica(replicas.unattached())
    with pytest.raises(ProtocolError):
        replicas.ask(made, vote(epoch=epoch, candidate=1))
    assert made.epoch == 5


@pytest.mark.conformance(30, 83)
def test_an_observer_with_an_id_may_vote_and_one_without_may_not() -> None:
    assert replied(replicas.ask(replicas.replica(replicas.unattached(), local_id=4), vote())).vote_granted
    assert not replied(replicas.ask(replicas.replica(replicas.unattached(), local_id=None), vote())).vote_granted


def test_the_answer_names_the_leader_on_the_listener_that_was_asked() -> None:
    made = replicas.replica(replicas.follower())
    assert replied(replicas.ask(made, vote(epoch=5))).listeners == replicas.listeners(2)
    on_vote_request(made, RequestReceived(request_id=7, listener="OTHER", message=vote()), vote(epoch=5), replicas.NOW)
    assert replied(replicas.done(made)).listeners == Listeners()


@pytest.mark.conformance(72, "H8")
def test_a_majority_of_pre_votes_opens_the_next_epoch() -> None:
    made = replicas.replica(replicas.prospective(leader_id=2, voted=3))
    replicas.answer(made, voted(leader_id=2))
    assert isinstance(made.state, Candidate)
    assert made.epoch == 6


@pytest.mark.conformance(68, 69)
def test_pre_votes_that_cannot_win_are_given_up_at_once() -> None:
    made = replicas.replica(replicas.prospective(count=replicas.tally(rejected=(3,))))
    replicas.answer(made, voted(granted=False))
    assert isinstance(made.state, Unattached)
    led = replicas.replica(replicas.prospective(leader_id=3, count=replicas.tally(rejected=(3,))))
    replicas.answer(led, voted(granted=False, leader_id=3))
    assert isinstance(led.state, Follower)


@pytest.mark.conformance(89)
def test_a_pre_vote_may_be_changed_as_long_as_nothing_is_decided() -> None:
    made = replicas.replica(replicas.prospective(count=replicas.tally(voters=(1, 2, 3, 4, 5), rejected=(2,))))
    replicas.answer(made, voted())
    assert isinstance(made.state, Prospective)
    assert made.state.tally == replicas.tally(voters=(1, 2, 3, 4, 5), granted=(1, 2))


def test_a_majority_of_votes_makes_a_leader() -> None:
    made = replicas.replica(replicas.candidate())
    replicas.answer(made, voted())
    assert isinstance(made.state, Leader)
    assert made.state.granting_voters == (1, 2)


@pytest.mark.conformance("H13")
def test_a_lost_candidacy_is_sat_out() -> None:
    made = replicas.replica(replicas.candidate(count=replicas.tally(rejected=(3,))))
    replicas.answer(made, voted(granted=False))
    assert isinstance(made.state, Candidate)
    assert made.state.tally.is_lost


@pytest.mark.conformance(88)
def test_a_vote_once_counted_stays() -> None:
    made = replicas.replica(replicas.candidate(count=replicas.tally(rejected=(2,))))
    before = made.state
    replicas.answer(made, voted())
    assert made.state is before


@pytest.mark.conformance(43)
@pytest.mark.parametrize(
    "state", [replicas.unattached(), replicas.follower(leader_id=2), replicas.prospective(), replicas.candidate()]
)
def test_answers_that_belong_to_no_campaign_are_ignored(state: State) -> None:
    made = replicas.replica(state)
    replicas.answer(made, voted(leader_id=made.leader_id), peer_id=9)
    if not isinstance(state, Prospective | Candidate):
        replicas.answer(made, voted(leader_id=made.leader_id))
    assert made.state is state


@pytest.mark.conformance(71)
def test_a_pre_vote_that_names_the_leader_ends_the_campaign() -> None:
    made = replicas.replica(replicas.prospective())
    replicas.answer(made, voted(leader_id=3))
    assert isinstance(made.state, Follower)
    assert made.leader_id == 3


@pytest.mark.parametrize("error", [ErrorCode.INVALID_VOTER_KEY, ErrorCode.UNKNOWN_SERVER_ERROR])
def test_an_error_is_no_answer(error: ErrorCode) -> None:
    made = replicas.replica(replicas.candidate())
    before = made.state
    replicas.answer(made, voted(error=error))
    assert made.state is before
    assert made.connections.is_backing_off(2)


@pytest.mark.conformance(66)
def test_without_support_for_pre_votes_the_standard_election_begins() -> None:
    made = replicas.replica(replicas.prospective())
    replicas.answer(made, messages.TopLevelError(error=ErrorCode.UNSUPPORTED_VERSION))
    assert isinstance(made.state, Candidate)
    waiting = replicas.replica(replicas.unattached())
    replicas.answer(waiting, messages.TopLevelError(error=ErrorCode.UNSUPPORTED_VERSION))
    assert isinstance(waiting.state, Unattached)


@pytest.mark.conformance(4, 5, 6, 26, 27)
@pytest.mark.parametrize("leaves", [False, True])
@pytest.mark.parametrize("name", replicas.YIELDING)
def test_a_vote_of_a_higher_epoch_is_free_in_every_state_that_hears_no_leader(name: str, leaves: bool) -> None:
    made = replicas.replica(replicas.STATES[name]())
    made.shutdown_deadline_ms = replicas.NOW.mono_ms + 9 if leaves else None
    found = replicas.ask(made, vote(epoch=6))
    assert isinstance(made.state, Unattached)
    assert (replied(found).vote_granted, replied(found).epoch, made.voted) == (True, 6, replicas.key(3))
    written = replicas.only(found, WriteElectionState)
    assert (written.election.voted, replicas.only(found, Reply).after) == (replicas.key(3), written.io)


@pytest.mark.conformance(30, 31)
@pytest.mark.parametrize("pre_vote", [False, True])
@pytest.mark.parametrize("name", replicas.STATES)
def test_a_candidate_of_another_voter_set_is_answered_like_any(name: str, pre_vote: bool) -> None:
    older = replied(
        replicas.ask(replicas.replica(replicas.STATES[name]()), vote(epoch=4, candidate=7, pre_vote=pre_vote))
    )
    assert (older.error, older.epoch) == (ErrorCode.FENCED_LEADER_EPOCH, 5)
    same = replied(
        replicas.ask(replicas.replica(replicas.STATES[name]()), vote(epoch=5, candidate=7, pre_vote=pre_vote))
    )
    is_given_away = name.endswith("-voted") and not pre_vote
    assert same.vote_granted == (GRANTS[name][pre_vote] and not is_given_away)
    made = replicas.replica(replicas.STATES[name]())
    higher = replied(replicas.ask(made, vote(epoch=6, candidate=7, pre_vote=pre_vote)))
    assert higher.vote_granted == isinstance(made.state, Unattached) == (name in replicas.YIELDING)
    assert higher.error == (ErrorCode.NONE if name in replicas.YIELDING else ErrorCode.BROKER_NOT_AVAILABLE)


@pytest.mark.conformance(23)
def test_a_leader_that_hears_of_a_higher_epoch_gives_up_what_waits_to_be_appended() -> None:
    state = replicas.leader()
    state.accumulation.add(handle=8, count=1, size_bytes=1, now=replicas.NOW)
    made = replicas.replica(state)
    found = replicas.answer(made, begun(epoch=6, leader_id=None, error=ErrorCode.FENCED_LEADER_EPOCH), peer_id=3)
    assert replicas.only(found, RejectProposal).handle == 8
    assert isinstance(made.state, Unattached)
    assert "AppendBatches" not in replicas.kinds(found)


def test_a_candidate_counts_the_vote_of_somebody_who_takes_it_for_the_leader() -> None:
    made = replicas.replica(replicas.prospective())
    replicas.answer(made, voted(granted=True, leader_id=1))
    assert isinstance(made.state, Candidate)
    waiting = replicas.replica(replicas.candidate())
    replicas.answer(waiting, voted(granted=False, leader_id=1))
    assert isinstance(waiting.state, Candidate)


@pytest.mark.parametrize("pre_vote", [False, True])
def test_a_former_leader_votes_for_no_other_directory_than_the_one_it_counted(pre_vote: bool) -> None:
    made = replicas.replica(replicas.unattached(epoch=6))
    message = replace(vote(epoch=6), candidate=replicas.key(2), last=replicas.END, pre_vote=pre_vote)
    would_grant = would_grant_pre_vote if pre_vote else would_grant_vote
    assert would_grant(made, message)
    made.led_directories = {NodeId(2): replicas.directory(9)}
    assert not would_grant(made, message)
    made.led_directories = {NodeId(2): replicas.directory(2)}
    assert would_grant(made, message)
