"""EndQuorumEpoch: which voter campaigns when, and when a resigned leader has told all voters.

Source: KIP-595 §EndQuorumEpoch, KIP-853 (preferred candidates).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from pykraft.core import messages
from pykraft.core.effects import Effect, Reply, Send
from pykraft.core.events import ConnectionLost
from pykraft.core.on.end_epoch import on_connection_lost
from pykraft.core.on.timer import poll
from pykraft.core.state import Follower, Prospective, Resigned, State, Unattached
from pykraft.errors import ErrorCode, ProtocolError
from pykraft.types import EPOCH_MAX
from tests.core.replicas import (
    LATER_MS,
    NOW,
    STATES,
    YIELDING,
    answer,
    ask,
    candidate,
    done,
    follower,
    later,
    leader,
    only,
    replica,
    resigned,
    sent,
    unattached,
)
from tests.core.said import batch, end, ended, fetched


def replied(found: list[Effect]) -> messages.EndQuorumEpochResponse:
    message = only(found, Reply).message
    assert isinstance(message, messages.EndQuorumEpochResponse)
    return message


@pytest.mark.conformance(22)
@pytest.mark.parametrize(
    ("successors", "wait_ms"),
    [((1, 3), 0), ((3, 1), 500), ((3, 2, 1), 500), ((2, 1, 3), 250), ((2, 3), 1_000), ((), 0)],
)
def test_a_follower_campaigns_in_the_order_of_successors(successors: tuple[int, ...], wait_ms: int) -> None:
    made = replica(follower())
    assert replied(ask(made, end(successors=successors))).error == 0
    assert isinstance(made.state, Follower)
    assert made.state.fetch_deadline_ms == NOW.mono_ms + wait_ms


def test_what_it_answered_before_its_goodbye_and_comes_after_it_is_no_sign_of_life() -> None:
    """The two travel on different connections: either may be the faster one."""
    made = replica(follower())
    ask(made, end(successors=(1, 3)))
    answer(made, fetched(batch(10, 12, 5)))
    assert isinstance(made.state, Follower)
    assert (made.log.end_offset, made.state.has_fetched) == (12, False)
    poll(made, NOW)
    assert isinstance(made.state, Prospective)


def test_a_follower_without_id_has_nothing_to_hurry_for() -> None:
    made = replica(follower(), local_id=None)
    ask(made, end())
    assert isinstance(made.state, Follower)
    assert made.state.fetch_deadline_ms == LATER_MS


@pytest.mark.parametrize("name", YIELDING)
def test_a_higher_epoch_is_adopted_with_its_leader(name: str) -> None:
    made = replica(STATES[name]())
    response = replied(ask(made, end(epoch=6, successors=(1,))))
    assert isinstance(made.state, Follower)
    assert (response.error, response.epoch, response.leader_id) == (0, 6, 2)
    assert made.state.fetch_deadline_ms == NOW.mono_ms


def test_a_leader_that_nobody_can_reach_is_remembered() -> None:
    made = replica(unattached())
    ask(made, end(epoch=6, leader_id=9))
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
    made = replica(follower())
    before = made.state
    assert replied(ask(made, request_)).error == error
    assert made.state is before


@pytest.mark.parametrize("state", [leader(), follower(leader_id=3), resigned()])
def test_a_second_leader_of_the_epoch_is_refused(state: State) -> None:
    made = replica(state)
    with pytest.raises(ProtocolError):
        ask(made, end())
    assert made.state is state


@pytest.mark.conformance(91)
def test_a_voter_that_acknowledged_is_not_told_again() -> None:
    made = replica(resigned())
    answer(made, ended(), peer_id=3)
    assert isinstance(made.state, Resigned)
    assert made.state.unacknowledged == {2}
    answer(made, ended(error=ErrorCode.UNKNOWN_SERVER_ERROR), peer_id=2)
    assert isinstance(made.state, Resigned)
    assert made.state.unacknowledged == {2}


@pytest.mark.parametrize(("peer_id", "is_told"), [(2, True), (4, False), (-1, False)])
def test_a_voter_whose_connection_ended_is_told_again(peer_id: int, is_told: bool) -> None:
    made = replica(replace(resigned(), unacknowledged=frozenset()))
    on_connection_lost(made, ConnectionLost(peer_id=peer_id), NOW)
    poll(made, NOW)
    told_again = [effect.peer.id for effect in done(made) if isinstance(effect, Send)]
    assert told_again == ([peer_id] if is_told else [])


@pytest.mark.parametrize("make", [candidate, follower, leader])
def test_whoever_has_not_resigned_ignores_a_connection_that_ended(make: Callable[..., State]) -> None:
    made = replica(make())
    before = made.state
    on_connection_lost(made, ConnectionLost(peer_id=2), NOW)
    assert made.state is before


def test_an_acknowledgement_without_a_resignation_is_ignored() -> None:
    made = replica(follower())
    before = made.state
    answer(made, ended(leader_id=2))
    assert made.state is before


@pytest.mark.conformance(20)
@pytest.mark.parametrize("state", [candidate(), leader()])
def test_an_older_epoch_ends_nothing(state: State) -> None:
    made = replica(state)
    found = ask(made, end(epoch=4, successors=(1,)))
    assert (replied(found).error, replied(found).epoch) == (ErrorCode.FENCED_LEADER_EPOCH, 5)
    assert made.state is state


@pytest.mark.conformance(21, 22)
@pytest.mark.parametrize(("successors", "wait_ms"), [((1, 3), 0), ((3, 1), 500)])
def test_who_did_not_know_the_leader_campaigns_in_its_turn(successors: tuple[int, ...], wait_ms: int) -> None:
    made = replica(unattached())
    ask(made, end(epoch=5, successors=successors))
    poll(made, later(wait_ms - 1))
    assert isinstance(made.state, Follower)
    done(made)
    poll(made, later(wait_ms))
    assert isinstance(made.state, Prospective)
    assert sent(done(made)) == [(2, "VoteRequest"), (3, "VoteRequest")]
