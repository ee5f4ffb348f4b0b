"""A leader announces itself with BeginQuorumEpoch, one that resigns starts the next election with EndQuorumEpoch."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from pykraft.core import messages
from pykraft.core.effects import Effect, Reply, Send, WriteElectionState
from pykraft.core.events import ConnectionLost
from pykraft.core.on.quorum_epoch import on_connection_lost
from pykraft.core.on.timer import poll
from pykraft.core.state import Follower, Prospective, Resigned, State, Unattached
from pykraft.errors import ErrorCode, ProtocolError
from pykraft.types import EPOCH_MAX, Listeners, NodeId, ReplicaKey
from tests.core import replicas
from tests.core.said import batch, begin, begun, end, ended, fetched

OTHER_DIRECTORY = ReplicaKey(NodeId(1), replicas.directory(9))
SAME_EPOCH = {
    "unattached": True,
    "unattached-voted": True,
    "unattached-led": True,
    "prospective": True,
    "prospective-voted": True,
    "prospective-led": False,
    "candidate": True,
    "leader": None,
    "follower": False,
    "follower-fetched": False,
    "resigned": None,
}
"""Whether leader 2 of the own epoch is news; None where it contradicts what is known."""


def replied(found: list[Effect]) -> messages.BeginQuorumEpochResponse:
    message = replicas.only(found, Reply).message
    assert isinstance(message, messages.BeginQuorumEpochResponse)
    return message


@pytest.mark.conformance(13, 18)
@pytest.mark.parametrize("name", replicas.YIELDING)
def test_a_leader_of_a_higher_epoch_is_followed(name: str) -> None:
    made = replicas.replica(replicas.STATES[name]())
    found = replicas.ask(made, begin(epoch=6))
    assert isinstance(made.state, Follower)
    assert (made.epoch, made.leader_id, made.leader_listeners, made.voted) == (6, 2, replicas.listeners(2), None)
    assert (replied(found).error, replied(found).epoch, replied(found).leader_id) == (0, 6, 2)
    assert replicas.only(found, Reply).after == replicas.only(found, WriteElectionState).io


@pytest.mark.conformance(18, 67)
@pytest.mark.parametrize("name", replicas.STATES)
def test_a_leader_of_the_own_epoch_is_followed_if_it_is_news(name: str) -> None:
    made = replicas.replica(replicas.STATES[name]())
    before, voted = made.state, made.voted
    if SAME_EPOCH[name] is None:
        with pytest.raises(ProtocolError):
            replicas.ask(made, begin(epoch=5))
    else:
        assert replied(replicas.ask(made, begin(epoch=5))).error == 0
    if SAME_EPOCH[name]:
        assert isinstance(made.state, Follower)
        assert (made.leader_id, made.voted) == (2, voted)
    else:
        assert made.state is before


@pytest.mark.conformance(18, 136)
@pytest.mark.parametrize("has_fetched", [False, True])
def test_more_endpoints_of_the_same_leader_are_news(has_fetched: bool) -> None:
    made = replicas.replica(replicas.follower(has_fetched=has_fetched))
    replicas.ask(made, begin(epoch=5, told=replicas.listeners(2, "OTHER")))
    assert isinstance(made.state, Follower)
    assert (made.leader_listeners, made.state.has_fetched) == (replicas.listeners(2, "OTHER"), has_fetched)


@pytest.mark.parametrize("has_fetched", [False, True])
def test_a_leader_that_is_heard_is_where_it_is_fetched_from(has_fetched: bool) -> None:
    made = replicas.replica(replicas.follower(has_fetched=has_fetched))
    replicas.ask(made, begin(epoch=5, told=replicas.listeners(9, "OTHER")))
    assert made.leader_listeners == (replicas.listeners(2) if has_fetched else replicas.listeners(9, "OTHER"))


@pytest.mark.conformance(18)
@pytest.mark.parametrize("fewer_or_as_many", [Listeners(), replicas.listeners(2), replicas.listeners(9)])
def test_fewer_or_as_many_endpoints_of_the_same_leader_are_none(fewer_or_as_many: Listeners) -> None:
    made = replicas.replica(
        replace(replicas.follower(has_fetched=True), leader_listeners=replicas.listeners(2, "OTHER"))
    )
    before = made.state
    response = replied(replicas.ask(made, begin(epoch=5, told=fewer_or_as_many)))
    assert (response.error, response.leader_id) == (0, 2)
    assert made.state is before


@pytest.mark.conformance(19)
def test_a_leader_that_hears_of_a_newer_one_follows_it() -> None:
    made = replicas.replica(replicas.leader())
    replicas.answer(made, begun(epoch=6, leader_id=3))
    assert isinstance(made.state, Follower)
    assert (made.epoch, made.leader_id) == (6, 3)


@pytest.mark.conformance(34)
@pytest.mark.parametrize(
    ("request_", "error", "epoch"),
    [
        (begin(epoch=4), ErrorCode.FENCED_LEADER_EPOCH, 5),
        (begin(epoch=4, leader_id=-1), ErrorCode.FENCED_LEADER_EPOCH, 5),
        (begin(leader_id=-1), ErrorCode.INVALID_REQUEST, 5),
        (begin(epoch=EPOCH_MAX + 1), ErrorCode.INVALID_REQUEST, 5),
        (begin(voter=OTHER_DIRECTORY), ErrorCode.INVALID_VOTER_KEY, 6),
        (begin(voter=replicas.key(3)), ErrorCode.INVALID_VOTER_KEY, 6),
        (begin(voter=replicas.key(1)), ErrorCode.NONE, 6),
    ],
)
def test_checks_come_in_their_order_and_the_voters_key_last(
    request_: messages.BeginQuorumEpochRequest, error: ErrorCode, epoch: int
) -> None:
    made = replicas.replica(replicas.unattached())
    assert (replied(replicas.ask(made, request_)).error, made.epoch) == (error, epoch)


@pytest.mark.parametrize(
    "request_", [begin(leader_id=1), begin(epoch=5, leader_id=1), begin(leader_id=9, told=Listeners())]
)
def test_what_no_leader_can_say_changes_nothing(request_: messages.BeginQuorumEpochRequest) -> None:
    made = replicas.replica(replicas.follower())
    before = made.state
    with pytest.raises(ProtocolError):
        replicas.ask(made, request_)
    assert made.state is before


@pytest.mark.conformance(136)
def test_endpoints_come_from_the_voter_set_when_they_are_not_told() -> None:
    made = replicas.replica(replicas.unattached())
    replicas.ask(made, begin(told=Listeners()))
    assert made.leader_listeners == replicas.listeners(2)


def test_an_answer_of_a_higher_epoch_deposes_and_another_changes_nothing() -> None:
    state: State = replicas.leader()
    made = replicas.replica(state)
    replicas.answer(made, begun())
    assert made.state is state
    replicas.answer(made, begun(epoch=6, leader_id=None))
    assert isinstance(made.state, Unattached)


MOVED = replicas.listeners(9)
"""Where leader 2 is, since it moved; the voter set still has its former place."""


def test_the_leader_itself_says_where_it_is() -> None:
    """A voter that had its place from another one's voter set looked for it there for ever (simulated seed 6612)."""
    made = replicas.replica(replicas.follower())
    replicas.ask(made, begin(epoch=5, told=MOVED))
    assert isinstance(made.state, Follower)
    assert made.leader_listeners == MOVED
    deadline_ms = replicas.follower().fetch_deadline_ms
    assert made.state.fetch_deadline_ms == deadline_ms


def test_who_names_no_place_changes_none() -> None:
    made = replicas.replica(replicas.follower())
    replicas.ask(made, begin(epoch=5, told=Listeners()))
    assert made.leader_listeners == replicas.listeners(2)


def end_replied(found: list[Effect]) -> messages.EndQuorumEpochResponse:
    message = replicas.only(found, Reply).message
    assert isinstance(message, messages.EndQuorumEpochResponse)
    return message


@pytest.mark.conformance(22)
@pytest.mark.parametrize(
    ("successors", "wait_ms"),
    [((1, 3), 0), ((3, 1), 500), ((3, 2, 1), 500), ((2, 1, 3), 250), ((2, 3), 1_000), ((), 0)],
)
def test_a_follower_campaigns_in_the_order_of_successors(successors: tuple[int, ...], wait_ms: int) -> None:
    made = replicas.replica(replicas.follower())
    assert end_replied(replicas.ask(made, end(successors=successors))).error == 0
    assert isinstance(made.state, Follower)
    assert made.state.fetch_deadline_ms == replicas.NOW.mono_ms + wait_ms


def test_what_it_answered_before_its_goodbye_and_comes_after_it_is_no_sign_of_life() -> None:
    """The two travel on different connections: either may be the faster one."""
    made = replicas.replica(replicas.follower())
    replicas.ask(made, end(successors=(1, 3)))
    replicas.answer(made, fetched(batch(10, 12, 5)))
    assert isinstance(made.state, Follower)
    assert (made.log.end_offset, made.state.has_fetched) == (12, False)
    poll(made, replicas.NOW)
    assert isinstance(made.state, Prospective)


def test_a_follower_without_id_has_nothing_to_hurry_for() -> None:
    made = replicas.replica(replicas.follower(), local_id=None)
    replicas.ask(made, end())
    assert isinstance(made.state, Follower)
    assert made.state.fetch_deadline_ms == replicas.LATER_MS


@pytest.mark.parametrize("name", replicas.YIELDING)
def test_a_higher_epoch_is_adopted_with_its_leader(name: str) -> None:
    made = replicas.replica(replicas.STATES[name]())
    response = end_replied(replicas.ask(made, end(epoch=6, successors=(1,))))
    assert isinstance(made.state, Follower)
    assert (response.error, response.epoch, response.leader_id) == (0, 6, 2)
    assert made.state.fetch_deadline_ms == replicas.NOW.mono_ms


def test_a_leader_that_nobody_can_reach_is_remembered() -> None:
    made = replicas.replica(replicas.unattached())
    replicas.ask(made, end(epoch=6, leader_id=9))
    assert isinstance(made.state, Unattached)
    assert (made.epoch, made.leader_id) == (6, 9)


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (end(epoch=4, leader_id=-1), ErrorCode.FENCED_LEADER_EPOCH),
        (end(leader_id=-1), ErrorCode.INVALID_REQUEST),
        (end(epoch=EPOCH_MAX + 1), ErrorCode.INVALID_REQUEST),
    ],
)
def test_checks_come_in_their_order(request_: messages.EndQuorumEpochRequest, error: ErrorCode) -> None:
    made = replicas.replica(replicas.follower())
    before = made.state
    assert end_replied(replicas.ask(made, request_)).error == error
    assert made.state is before


@pytest.mark.parametrize("state", [replicas.leader(), replicas.follower(leader_id=3), replicas.resigned()])
def test_a_second_leader_of_the_epoch_is_refused(state: State) -> None:
    made = replicas.replica(state)
    with pytest.raises(ProtocolError):
        replicas.ask(made, end())
    assert made.state is state


@pytest.mark.conformance(91)
def test_a_voter_that_acknowledged_is_not_told_again() -> None:
    made = replicas.replica(replicas.resigned())
    replicas.answer(made, ended(), peer_id=3)
    assert isinstance(made.state, Resigned)
    assert made.state.unacknowledged == {2}
    replicas.answer(made, ended(error=ErrorCode.UNKNOWN_SERVER_ERROR), peer_id=2)
    assert isinstance(made.state, Resigned)
    assert made.state.unacknowledged == {2}


@pytest.mark.parametrize(("peer_id", "is_told"), [(2, True), (4, False), (-1, False)])
def test_a_voter_whose_connection_ended_is_told_again(peer_id: int, is_told: bool) -> None:
    made = replicas.replica(replace(replicas.resigned(), unacknowledged=frozenset()))
    on_connection_lost(made, ConnectionLost(peer_id=peer_id), replicas.NOW)
    poll(made, replicas.NOW)
    told_again = [effect.peer.id for effect in replicas.done(made) if isinstance(effect, Send)]
    assert told_again == ([peer_id] if is_told else [])


@pytest.mark.parametrize("make", [replicas.candidate, replicas.follower, replicas.leader])
def test_whoever_has_not_resigned_ignores_a_connection_that_ended(make: Callable[..., State]) -> None:
    made = replicas.replica(make())
    before = made.state
    on_connection_lost(made, ConnectionLost(peer_id=2), replicas.NOW)
    assert made.state is before


def test_an_acknowledgement_without_a_resignation_is_ignored() -> None:
    made = replicas.replica(replicas.follower())
    before = made.state
    replicas.answer(made, ended(leader_id=2))
    assert made.state is before


@pytest.mark.conformance(20)
@pytest.mark.parametrize("state", [replicas.candidate(), replicas.leader()])
def test_an_older_epoch_ends_nothing(state: State) -> None:
    made = replicas.replica(state)
    found = replicas.ask(made, end(epoch=4, successors=(1,)))
    assert (end_replied(found).error, end_replied(found).epoch) == (ErrorCode.FENCED_LEADER_EPOCH, 5)
    assert made.state is state


@pytest.mark.conformance(21, 22)
@pytest.mark.parametrize(("successors", "wait_ms"), [((1, 3), 0), ((3, 1), 500)])
def test_who_did_not_know_the_leader_campaigns_in_its_turn(successors: tuple[int, ...], wait_ms: int) -> None:
    made = replicas.replica(replicas.unattached())
    replicas.ask(made, end(epoch=5, successors=successors))
    poll(made, replicas.later(wait_ms - 1))
    assert isinstance(made.state, Follower)
    replicas.done(made)
    poll(made, replicas.later(wait_ms))
    assert isinstance(made.state, Prospective)
    assert replicas.sent(replicas.done(made)) == [(2, "VoteRequest"), (3, "VoteRequest")]
