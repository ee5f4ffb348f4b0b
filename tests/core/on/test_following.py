"""What a message may teach about epoch and leader, and what contradicts the replica's knowledge."""

from dataclasses import replace

import pytest

from pykraft.core import messages
from pykraft.core.effects import Report
from pykraft.core.on.following import check_consistent, learn_leader, settle_answer
from pykraft.core.replica import Replica
from pykraft.core.state import Follower, Prospective, State, Unattached
from pykraft.errors import ErrorCode, ProtocolError
from pykraft.types import EPOCH_MAX, Epoch, Listeners, NodeId
from tests.core.replicas import (
    NOW,
    STATES,
    answer,
    candidate,
    done,
    follower,
    leader,
    listeners,
    only,
    prospective,
    replica,
    resigned,
    unattached,
)
from tests.core.said import fetched, voted


def learn(
    made: Replica, epoch: int, leader_id: int | None, told: Listeners | None = None
) -> tuple[str, int, int | None]:
    known = None if leader_id is None else NodeId(leader_id)
    learn_leader(made, Epoch(epoch), known, listeners(leader_id or 0) if told is None else told, NOW)
    return type(made.state).__name__, made.epoch, made.leader_id


@pytest.mark.parametrize("name", STATES)
def test_an_older_epoch_or_the_own_without_a_leader_is_no_news(name: str) -> None:
    made = replica(STATES[name]())
    before = made.state
    learn(made, 4, 3)
    learn(made, 5, None)
    assert made.state is before


@pytest.mark.parametrize("name", STATES)
def test_a_higher_epoch_is_always_news(name: str) -> None:
    assert learn(replica(STATES[name]()), 6, None) == ("Unattached", 6, None)
    assert learn(replica(STATES[name]()), 6, 2) == ("Follower", 6, 2)
    assert learn(replica(STATES[name]()), 6, 9, Listeners()) == ("Unattached", 6, 9)


def test_endpoints_of_voters_are_known_without_being_told() -> None:
    made = replica(unattached(leader_id=2))
    assert learn(made, 5, 2, Listeners()) == ("Follower", 5, 2)
    assert made.leader_listeners == listeners(2)


@pytest.mark.conformance(75)
def test_a_leader_without_endpoints_can_be_followed_once_they_are_told() -> None:
    made = replica(unattached(leader_id=9))
    assert learn(made, 5, 9, Listeners()) == ("Unattached", 5, 9)
    assert learn(made, 5, 9) == ("Follower", 5, 9)


def test_a_leader_of_the_own_epoch_keeps_its_office_when_its_name_comes_back() -> None:
    made = replica(leader())
    assert learn(made, 5, 1) == ("Leader", 5, 1)


@pytest.mark.parametrize(
    ("state", "epoch", "leader_id", "is_consistent"),
    [
        (follower(), 5, 2, True),
        (follower(), 5, 3, False),
        (follower(), 4, 3, True),
        (follower(), 6, 3, True),
        (follower(), 5, None, True),
        (unattached(leader_id=9), 5, 3, False),
        (prospective(leader_id=2), 5, 3, False),
        (candidate(), 5, 3, True),
        (leader(), 5, 1, True),
        (leader(), 5, 2, False),
        (leader(), 6, 1, False),
        (resigned(), 5, 1, True),
        (resigned(), 5, 2, False),
        (follower(), 4, 1, True),
        (follower(), 5, 1, False),
        (unattached(), 6, 1, False),
        (unattached(), EPOCH_MAX, None, True),
        (unattached(), EPOCH_MAX + 1, None, False),
    ],
)
def test_a_message_that_names_another_leader_of_the_epoch_is_refused(
    state: State, epoch: int, leader_id: int | None, is_consistent: bool
) -> None:
    made = replica(state)
    known = None if leader_id is None else NodeId(leader_id)
    if is_consistent:
        check_consistent(made, Epoch(epoch), known)
        return
    with pytest.raises(ProtocolError):
        check_consistent(made, Epoch(epoch), known)
    with pytest.raises(ProtocolError):
        learn(made, epoch, leader_id)
    assert made.state is state


def settle(made: Replica, message: messages.VoteResponse, peer_id: int = 2) -> tuple[bool, bool]:
    """Whether the RPC's own part is to be done, and whether the peer is left alone for a while."""
    return settle_answer(made, peer_id, message, NOW), made.connections.is_backing_off(2)


@pytest.mark.parametrize(
    ("state", "message", "expected"),
    [
        (follower(), voted(leader_id=2), (True, False)),
        (follower(), voted(epoch=4), (False, True)),
        (follower(), voted(error=ErrorCode.UNKNOWN_LEADER_EPOCH, epoch=4), (False, True)),
        (follower(), voted(error=ErrorCode.UNKNOWN_LEADER_EPOCH), (False, True)),
        (follower(), voted(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, leader_id=2), (False, True)),
        (follower(), voted(error=ErrorCode.BROKER_NOT_AVAILABLE, leader_id=2), (False, True)),
        (follower(), voted(error=ErrorCode.INVALID_VOTER_KEY, leader_id=2), (False, True)),
        (follower(), voted(error=199, leader_id=2), (False, True)),
        (unattached(), voted(), (True, False)),
        (unattached(leader_id=9), voted(leader_id=9), (True, False)),
        (leader(), voted(leader_id=1), (True, False)),
    ],
)
def test_without_news_the_peer_is_left_alone_unless_all_is_well(
    state: State, message: messages.VoteResponse, expected: tuple[bool, bool]
) -> None:
    made = replica(state)
    assert settle(made, message) == expected
    assert made.state == state


@pytest.mark.parametrize(
    "message",
    [
        voted(epoch=6, leader_id=2),
        voted(epoch=6, error=ErrorCode.FENCED_LEADER_EPOCH, leader_id=2),
        voted(leader_id=2),
        voted(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, leader_id=2),
        voted(error=ErrorCode.UNKNOWN_SERVER_ERROR, leader_id=2),
    ],
)
def test_a_leader_that_becomes_known_is_followed_and_nothing_else_done(message: messages.VoteResponse) -> None:
    made = replica(unattached())
    assert settle(made, message) == (False, False)
    assert isinstance(made.state, Follower)
    assert made.leader_id == 2


def test_a_higher_epoch_without_a_leader_is_adopted() -> None:
    made = replica(candidate())
    assert settle(made, voted(epoch=6)) == (False, False)
    assert isinstance(made.state, Unattached)
    assert made.epoch == 6


@pytest.mark.parametrize("state", [leader(), follower(), candidate(), unattached(leader_id=3)])
def test_an_answer_that_names_this_node_as_leader_of_a_higher_epoch_raises_the_epoch(state: State) -> None:
    made = replica(state)
    assert settle(made, voted(epoch=6, error=ErrorCode.FENCED_LEADER_EPOCH, leader_id=1)) == (False, False)
    assert isinstance(made.state, Unattached)
    assert (made.epoch, made.leader_id) == (6, None)
    report = only(done(made), Report)
    assert report.text.startswith("peer 2 takes this node for the leader of epoch 6, but this node does not lead it: ")
    assert report.is_alarm


@pytest.mark.parametrize("state", [follower(), prospective(), candidate(), unattached(), unattached(leader_id=3)])
def test_an_answer_that_names_this_node_as_leader_of_its_epoch_counts_without_the_name(state: State) -> None:
    made = replica(state)
    assert settle(made, voted(leader_id=1)) == (True, False)
    assert settle(made, voted(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, leader_id=1)) == (False, True)
    assert made.state == state
    assert done(made) == []


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (follower(), voted(error=ErrorCode.INVALID_REQUEST, leader_id=2)),
        (follower(has_fetched=True), voted(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, leader_id=3)),
        (follower(), voted(epoch=EPOCH_MAX + 1)),
        (follower(), voted(epoch=EPOCH_MAX + 1, leader_id=1)),
    ],
)
def test_answers_that_cannot_be_true_change_nothing(state: State, message: messages.VoteResponse) -> None:
    made = replica(state)
    with pytest.raises(ProtocolError):
        settle(made, message)
    assert made.state is state


@pytest.mark.parametrize(
    ("state", "peer_id"),
    [(follower(), 2), (follower(), 3), (prospective(leader_id=2), 3), (unattached(leader_id=9), 4)],
)
def test_a_leader_that_was_only_named_is_corrected_once_by_itself_or_by_the_leader(state: State, peer_id: int) -> None:
    """Ours (ADR 148): a bit may have flipped in the name."""
    made = replica(state)
    assert settle(made, voted(leader_id=3), peer_id=peer_id) == (False, False)
    assert isinstance(made.state, Follower)
    assert (made.epoch, made.leader_id) == (5, 3)
    assert "never answered as the leader of epoch 5" in only(done(made), Report).text
    with pytest.raises(ProtocolError, match="epoch 5 has leader 3, it names 2 as well"):
        settle(made, voted(leader_id=2), peer_id=3)


@pytest.mark.parametrize("peer_id", [2, 4])
def test_a_campaign_counts_the_votes_of_those_that_heard_of_another_leader(peer_id: int) -> None:
    """Three voters that were told of three leaders followed what the others had heard, in turn (seed 1209)."""
    made = replica(prospective(leader_id=2))
    assert settle(made, voted(leader_id=3), peer_id=peer_id) == (True, False)
    assert isinstance(made.state, Prospective)
    assert made.leader_id == 2
    assert done(made) == []


def test_hearsay_does_not_replace_a_leader_that_can_be_reached() -> None:
    made = replica(follower())
    with pytest.raises(ProtocolError, match="epoch 5 has leader 2, it names 3 as well"):
        settle(made, voted(leader_id=3), peer_id=4)


def test_the_leaders_answer_names_its_endpoint_on_our_listener() -> None:
    """A bit had flipped in the name of the listener: its Fetches went to bootstrap servers, without a pause."""
    elsewhere = Listeners(listeners(2, "OTHER").entries[-1:])
    made = replica(replace(follower(has_fetched=True), leader_listeners=elsewhere))
    settle(made, voted(leader_id=2, told=listeners(2)), peer_id=-2)
    assert made.leader_listeners == listeners(2)


def test_a_leader_does_not_follow_itself_however_many_endpoints_it_is_told_to_have() -> None:
    assert learn(replica(leader()), 5, 1, listeners(1, "OTHER")) == ("Leader", 5, 1)


MOVED = listeners(9)


@pytest.mark.parametrize(
    ("state", "is_corrected"),
    [(follower(), True), (follower(has_fetched=True), False), (prospective(leader_id=2), True)],
)
def test_a_leader_that_was_not_found_yet_is_looked_for_where_others_say(
    state: Follower | Prospective, is_corrected: bool
) -> None:
    """Nobody is sent away from a leader that it fetches from; and no election is put off."""
    made = replica(state)
    answer(made, fetched(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, told=MOVED), peer_id=3)
    assert made.leader_listeners == (MOVED if is_corrected else listeners(2))
    assert isinstance(made.state, Follower | Prospective)
    assert replace(made.state, leader_listeners=listeners(2)) == state


@pytest.mark.parametrize(
    "said",
    [
        fetched(error=ErrorCode.NOT_LEADER_OR_FOLLOWER),
        fetched(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, leader_id=None, told=MOVED),
        fetched(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, epoch=4, told=MOVED),
    ],
)
def test_who_names_no_place_or_another_leader_changes_none(said: messages.FetchResponse) -> None:
    made = replica(follower())
    answer(made, said, peer_id=3)
    assert made.leader_listeners == listeners(2)
