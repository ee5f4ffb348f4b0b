"""Which peer gets which request, and when none is sent."""

from dataclasses import replace

import pytest

from pykraft.config import RaftConfig
from pykraft.core import messages
from pykraft.core.effects import Effect, Send, WriteElectionState
from pykraft.core.election import NEVER_MS
from pykraft.core.on import send_requests
from pykraft.core.on.timer import poll
from pykraft.core.proof import Survey
from pykraft.core.replica import Replica
from pykraft.core.state import Candidate, Prospective
from pykraft.core.transitions import write_election
from pykraft.types import NO_LISTENERS, Endpoint, KRaftVoters, Listeners, NodeId, Offset, Voter, VoterSet
from tests.core.replicas import (
    END,
    EPOCH,
    LISTENER,
    NOW,
    candidate,
    done,
    follower,
    key,
    later,
    leader,
    listeners,
    only,
    prospective,
    replica,
    resigned,
    sent,
    tally,
    unattached,
    voter_set,
)

BOOTSTRAP = (Endpoint("b", 1), Endpoint("b", 2))


def messages_of(found: list[Effect]) -> list[messages.Request]:
    return [effect.message for effect in found if isinstance(effect, Send)]


@pytest.mark.conformance(55, "H3")
@pytest.mark.parametrize("state", [prospective(count=tally(rejected=(2,))), candidate(count=tally(rejected=(2,)))])
def test_voters_that_have_not_answered_are_asked_for_votes(state: Prospective | Candidate) -> None:
    made = replica(state)
    send_requests.ask_for_votes(made, state, NOW)
    send_requests.ask_for_votes(made, state, NOW)
    (message,) = messages_of(done(made))
    assert message == messages.VoteRequest(
        epoch=EPOCH, candidate=key(1), voter=key(3), last=END, pre_vote=isinstance(state, Prospective)
    )


def endpoints_of_3(made: Replica) -> list[Endpoint]:
    return [effect.peer.endpoint for effect in done(made) if isinstance(effect, Send) and effect.peer.id == 3]


def test_after_many_questions_for_a_pre_vote_each_third_goes_where_the_voter_was_or_to_a_bootstrap_server() -> None:
    """Leader 2 took the endpoint of a stranger for that of voter 3, which was down, and was lost (seed 17).

    The Vote goes where the pre-vote was granted: at the present endpoint it met the stranger again (seed 1265).
    """
    here, stranger, former = listeners(3), Listeners(((LISTENER, Endpoint("stranger", 1)),)), listeners(4)
    others = voter_set(1, 2).voters
    sets = [VoterSet.of([*others, Voter(key=key(3), listeners=told)]) for told in (former, here, stranger)]
    sets.insert(0, VoterSet.of([*others, Voter(key=replace(key(3), directory_id=key(9).directory_id), listeners=here)]))
    servers = [told.get(LISTENER) for told in (listeners(1), listeners(2), here, listeners(5))]
    made = replica(prospective(), voters=sets[0], bootstrap=tuple(filter(None, servers)))
    for at, voters in enumerate(sets):
        made.voter_history.record(Offset(at), KRaftVoters(voters))
    asked = []
    for _ in range(send_requests.QUESTIONS_BEFORE_TURNS + 12):
        made.connections.reset()
        send_requests.ask_for_votes(made, prospective(), NOW)
        asked += endpoints_of_3(made)
        made.connections.reset()
        send_requests.ask_for_votes(made, candidate(), NOW)
        assert endpoints_of_3(made) == asked[-1:]
    turns = asked[send_requests.QUESTIONS_BEFORE_TURNS :]
    assert {*asked[: send_requests.QUESTIONS_BEFORE_TURNS], *turns[1::3], *turns[2::3]} == {stranger.get(LISTENER)}
    assert turns[0::3] == [told.get(LISTENER) for told in (here, former, listeners(5), here)]


def test_the_question_for_a_vote_waits_for_the_own_one() -> None:
    made = replica(candidate())
    write_election(made)
    state = made.state
    assert isinstance(state, Candidate)
    send_requests.ask_for_votes(made, state, NOW)
    found = done(made)
    assert {effect.after for effect in found if isinstance(effect, Send)} == {only(found, WriteElectionState).io}


@pytest.mark.conformance(14, 93)
def test_only_silent_voters_hear_begin_quorum_epoch_and_once_in_half_a_fetch_timeout() -> None:
    state = leader()
    made = replica(state)
    now = later(1_000)
    state.progress.of(key(2)).fetched(Offset(10), Offset(10), later(1))
    state.progress.of(key(3)).fetched(Offset(10), Offset(10), later(0))
    send_requests.say_begin_quorum_epoch(made, state, later(999))
    assert done(made) == []
    send_requests.say_begin_quorum_epoch(made, state, now)
    found = done(made)
    assert sent(found) == [(3, "BeginQuorumEpochRequest")]
    assert messages_of(found) == [
        messages.BeginQuorumEpochRequest(epoch=EPOCH, leader_id=NodeId(1), voter=key(3), listeners=listeners(1))
    ]
    assert state.begin_quorum_deadline_ms == now.mono_ms + 1_000


def test_an_only_voter_announces_itself_to_nobody() -> None:
    state = leader(voters=voter_set(1))
    made = replica(state, voters=voter_set(1))
    send_requests.say_begin_quorum_epoch(made, state, later(1_000))
    assert (done(made), state.begin_quorum_deadline_ms) == ([], NEVER_MS)


@pytest.mark.conformance("H39")
def test_a_resigned_leader_tells_voters_that_have_not_acknowledged() -> None:
    made = replica(resigned(), voters=voter_set(1, 2))
    send_requests.say_end_quorum_epoch(made, resigned(), NOW)
    found = done(made)
    assert sent(found) == [(2, "EndQuorumEpochRequest")]
    assert messages_of(found) == [
        messages.EndQuorumEpochRequest(
            epoch=EPOCH, leader_id=NodeId(1), successors=(key(3), key(2)), listeners=NO_LISTENERS
        )
    ]


def test_a_voter_without_endpoint_cannot_be_asked() -> None:
    voters = VoterSet.of([*voter_set(1, 2).voters, Voter(key=key(3), listeners=Listeners())])
    made = replica(candidate(), voters=voters)
    send_requests.ask_for_votes(made, candidate(), NOW)
    assert sent(done(made)) == [(2, "VoteRequest")]


@pytest.mark.conformance(55, 145)
def test_a_follower_fetches_from_its_leader_one_fetch_at_a_time() -> None:
    state = follower()
    made = replica(state)
    send_requests.send_fetch_to_leader(made, state, NOW)
    found = done(made)
    send_requests.send_fetch_to_leader(made, state, NOW)
    assert done(made) == []
    assert only(found, Send).peer.endpoint == listeners(2).get("CONTROLLER")
    assert messages_of(found) == [
        messages.FetchRequest(
            replica=key(1),
            epoch=EPOCH,
            fetch_offset=END.offset,
            last_fetched_epoch=END.epoch,
            wait_ms_max=500,
            size_bytes_max=4_194_304,
            high_watermark=4,
        )
    ]


@pytest.mark.conformance(143)
def test_a_fetch_asks_for_as_much_and_waits_as_long_as_configured() -> None:
    state = follower()
    made = replica(state, config=RaftConfig(fetch_size_bytes_max=4_321, fetch_wait_ms_max=77))
    send_requests.send_fetch_to_leader(made, state, NOW)
    made.connections.reset()
    send_requests.send_fetch_to_bootstrap(made, NOW)
    asked = [message for message in messages_of(done(made)) if isinstance(message, messages.FetchRequest)]
    assert [(message.size_bytes_max, message.wait_ms_max) for message in asked] == [(4_321, 77)] * 2


@pytest.mark.conformance("H54")
def test_a_fetch_waits_for_what_it_acknowledges() -> None:
    made = replica(follower())
    io = made.outbox.next_log_io()
    send_requests.send_fetch_to_leader(made, follower(), NOW)
    assert only(done(made), Send).after == io


@pytest.mark.conformance(39, 90, 97)
@pytest.mark.parametrize("cause", ["backs off", "has no endpoint"])
def test_while_the_leader_cannot_be_asked_a_bootstrap_server_is(cause: str) -> None:
    state = follower()
    if cause == "has no endpoint":
        state = replace(state, leader_listeners=Listeners((("OTHER", Endpoint("n2", 1)),)))
    made = replica(state, bootstrap=BOOTSTRAP)
    if cause == "backs off":
        made.connections.back_off(2, NOW.mono_ms)
    send_requests.send_fetch_to_leader(made, state, NOW)
    ((peer_id, name),) = sent(done(made))
    assert peer_id in (-2, -3)
    assert name == "FetchRequest"


def test_without_bootstrap_servers_the_other_voters_are_asked() -> None:
    made = replica(unattached())
    made.connections.back_off(2, NOW.mono_ms)
    send_requests.send_fetch_to_bootstrap(made, NOW)
    assert sent(done(made)) == [(3, "FetchRequest")]
    send_requests.send_fetch_to_bootstrap(made, NOW)
    assert done(made) == []


@pytest.mark.conformance(145)
def test_a_replica_that_knows_no_high_watermark_says_so() -> None:
    made = replica(resigned(), local_id=None)
    send_requests.send_fetch_to_bootstrap(made, NOW)
    (message,) = messages_of(done(made))
    assert isinstance(message, messages.FetchRequest)
    assert (message.replica, message.high_watermark) == (None, -1)


@pytest.mark.parametrize("local_id", [None, 1])
def test_only_who_can_never_vote_wants_committed_records_only(local_id: int | None) -> None:
    """An unproven voter sends no id either, and needs what the others have: its vote may be what the commit lacks."""
    made = replica(resigned(), local_id=local_id)
    made.survey = None if local_id is None else Survey(has_fresh_id=False)
    send_requests.send_fetch_to_bootstrap(made, NOW)
    (message,) = messages_of(done(made))
    assert isinstance(message, messages.FetchRequest)
    assert (message.replica, message.is_committed_only) == (None, local_id is None)


@pytest.mark.parametrize("is_known", [True, False])
def test_an_unproven_replica_asks_its_leader_where_it_fetches_from_it(is_known: bool) -> None:
    """The voter set may have an endpoint from before the leader moved; asking there would end the other connection."""
    moved = listeners(9) if is_known else Listeners((("OTHER", Endpoint("n9", 9_009)),))
    made = replica(replace(follower(), leader_listeners=moved))
    made.survey = Survey(has_fresh_id=False)
    poll(made, NOW)
    asked = [each for each in done(made) if isinstance(each, Send) and isinstance(each.message, messages.VoteRequest)]
    expected = (moved if is_known else listeners(2)).get(LISTENER)
    assert {each.peer.id: each.peer.endpoint for each in asked} == {2: expected, 3: listeners(3).get(LISTENER)}
