"""BeginQuorumEpoch: which leader to follow, in every state.

Source: KIP-595 §BeginQuorumEpoch, KIP-853 (leader endpoints, voter keys).
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from pykraft.core import messages
from pykraft.core.effects import Effect, Reply, WriteElectionState
from pykraft.core.state import Follower, State, Unattached
from pykraft.errors import ErrorCode, ProtocolError
from pykraft.types import EPOCH_MAX, Listeners, NodeId, ReplicaKey
from tests.core.replicas import (
    STATES,
    YIELDING,
    answer,
    ask,
    directory,
    follower,
    key,
    leader,
    listeners,
    only,
    replica,
    unattached,
)
from tests.core.said import begin, begun

OTHER_DIRECTORY = ReplicaKey(NodeId(1), directory(9))
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
    message = only(found, Reply).message
    assert isinstance(message, messages.BeginQuorumEpochResponse)
    return message


@pytest.mark.conformance(13, 18)
@pytest.mark.parametrize("name", YIELDING)
def test_a_leader_of_a_higher_epoch_is_followed(name: str) -> None:
    made = replica(STATES[name]())
    found = ask(made, begin(epoch=6))
    assert isinstance(made.state, Follower)
    assert (made.epoch, made.leader_id, made.leader_listeners, made.voted) == (6, 2, listeners(2), None)
    assert (replied(found).error, replied(found).epoch, replied(found).leader_id) == (0, 6, 2)
    assert only(found, Reply).after == only(found, WriteElectionState).io


@pytest.mark.conformance(18, 67)
@pytest.mark.parametrize("name", STATES)
def test_a_leader_of_the_own_epoch_is_followed_if_it_is_news(name: str) -> None:
    made = replica(STATES[name]())
    before, voted = made.state, made.voted
    if SAME_EPOCH[name] is None:
        with pytest.raises(ProtocolError):
            ask(made, begin(epoch=5))
    else:
        assert replied(ask(made, begin(epoch=5))).error == 0
    if SAME_EPOCH[name]:
        assert isinstance(made.state, Follower)
        assert (made.leader_id, made.voted) == (2, voted)
    else:
        assert made.state is before


@pytest.mark.conformance(18, 136)
@pytest.mark.parametrize("has_fetched", [False, True])
def test_more_endpoints_of_the_same_leader_are_news(has_fetched: bool) -> None:
    made = replica(follower(has_fetched=has_fetched))
    ask(made, begin(epoch=5, told=listeners(2, "OTHER")))
    assert isinstance(made.state, Follower)
    assert (made.leader_listeners, made.state.has_fetched) == (listeners(2, "OTHER"), has_fetched)


@pytest.mark.parametrize("has_fetched", [False, True])
def test_a_leader_that_is_heard_is_where_it_is_fetched_from(has_fetched: bool) -> None:
    made = replica(follower(has_fetched=has_fetched))
    ask(made, begin(epoch=5, told=listeners(9, "OTHER")))
    assert made.leader_listeners == (listeners(2) if has_fetched else listeners(9, "OTHER"))


@pytest.mark.conformance(18)
@pytest.mark.parametrize("fewer_or_as_many", [Listeners(), listeners(2), listeners(9)])
def test_fewer_or_as_many_endpoints_of_the_same_leader_are_none(fewer_or_as_many: Listeners) -> None:
    made = replica(replace(follower(has_fetched=True), leader_listeners=listeners(2, "OTHER")))
    before = made.state
    response = replied(ask(made, begin(epoch=5, told=fewer_or_as_many)))
    assert (response.error, response.leader_id) == (0, 2)
    assert made.state is before


@pytest.mark.conformance(19)
def test_a_leader_that_hears_of_a_newer_one_follows_it() -> None:
    made = replica(leader())
    answer(made, begun(epoch=6, leader_id=3))
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
        (begin(voter=key(3)), ErrorCode.INVALID_VOTER_KEY, 6),
        (begin(voter=key(1)), ErrorCode.NONE, 6),
    ],
)
def test_checks_come_in_their_order_and_the_voters_key_last(
    request_: messages.BeginQuorumEpochRequest, error: ErrorCode, epoch: int
) -> None:
    made = replica(unattached())
    assert (replied(ask(made, request_)).error, made.epoch) == (error, epoch)


@pytest.mark.parametrize(
    "request_", [begin(leader_id=1), begin(epoch=5, leader_id=1), begin(leader_id=9, told=Listeners())]
)
def test_what_no_leader_can_say_changes_nothing(request_: messages.BeginQuorumEpochRequest) -> None:
    made = replica(follower())
    before = made.state
    with pytest.raises(ProtocolError):
        ask(made, request_)
    assert made.state is before


@pytest.mark.conformance(136)
def test_endpoints_come_from_the_voter_set_when_they_are_not_told() -> None:
    made = replica(unattached())
    ask(made, begin(told=Listeners()))
    assert made.leader_listeners == listeners(2)


def test_an_answer_of_a_higher_epoch_deposes_and_another_changes_nothing() -> None:
    state: State = leader()
    made = replica(state)
    answer(made, begun())
    assert made.state is state
    answer(made, begun(epoch=6, leader_id=None))
    assert isinstance(made.state, Unattached)


MOVED = listeners(9)
"""Where leader 2 is, since it moved; the voter set still has its former place."""


def test_the_leader_itself_says_where_it_is() -> None:
    """A voter that had its place from another one's voter set looked for it there for ever (simulated seed 6612)."""
    made = replica(follower())
    ask(made, begin(epoch=5, told=MOVED))
    assert isinstance(made.state, Follower)
    assert made.leader_listeners == MOVED
    deadline_ms = follower().fetch_deadline_ms
    assert made.state.fetch_deadline_ms == deadline_ms


def test_who_names_no_place_changes_none() -> None:
    made = replica(follower())
    ask(made, begin(epoch=5, told=Listeners()))
    assert made.leader_listeners == listeners(2)
