"""The transition table, every pair of it, and the effects of a transition."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import product

import pytest

from pykraft.core.effects import NotifyLeaderChange, NotifyRole, Reply, WriteElectionState
from pykraft.core.leader.parked import ParkedFetch
from pykraft.core.messages import FetchResponse
from pykraft.core.state import Candidate, Follower, Leader, Prospective, Resigned, State, Unattached
from pykraft.core.transitions import MOVES, become, is_durable, why_illegal
from pykraft.errors import ErrorCode
from pykraft.types import Election, NodeId
from tests.core import replicas
from tests.core.said import fetch

WON = replicas.tally(granted=(1, 2))
MAKERS: Mapping[type[State], Callable[..., State]] = {
    Unattached: replicas.unattached,
    Prospective: replicas.prospective,
    Candidate: lambda *, epoch: replicas.candidate(epoch=epoch, count=WON),
    Leader: replicas.leader,
    Follower: replicas.follower,
    Resigned: replicas.resigned,
}
LEGAL = {
    # from, to: within the epoch, into a higher one. KIP-595 and KIP-996 drawn once more, by hand.
    "Unattached Unattached": "both",
    "Unattached Prospective": "same",
    "Unattached Follower": "both",
    "Prospective Unattached": "both",
    "Prospective Prospective": "same",
    "Prospective Candidate": "higher",
    "Prospective Follower": "both",
    "Candidate Unattached": "higher",
    "Candidate Prospective": "same",
    "Candidate Leader": "same",
    "Candidate Follower": "both",
    "Leader Unattached": "higher",
    "Leader Follower": "higher",
    "Leader Resigned": "same",
    "Follower Unattached": "higher",
    "Follower Prospective": "same",
    "Follower Follower": "both",
    "Resigned Unattached": "higher",
    "Resigned Prospective": "same",
    "Resigned Follower": "higher",
}


def fresh(old: State, new: State) -> State:
    """What the rules within an epoch ask for besides: a first vote, or a leader that says more."""
    if type(old) is type(new) and isinstance(new, Unattached | Prospective) and new.epoch == old.epoch:
        return replace(new, voted=replicas.key(3))
    if isinstance(new, Follower):
        return replace(new, leader_listeners=replicas.listeners(2, "OTHER"))
    return new


@pytest.mark.conformance(76, 77, 79, 80, 81, 82, 85, 86, "H8")
@pytest.mark.parametrize(("old_type", "new_type", "step"), list(product(MAKERS, MAKERS, (-1, 0, 1))))
def test_every_pair_of_states(old_type: type[State], new_type: type[State], step: int) -> None:
    old = MAKERS[old_type](epoch=replicas.EPOCH)
    new = fresh(old, MAKERS[new_type](epoch=replicas.EPOCH + step))
    allowed = LEGAL.get(f"{old_type.__name__} {new_type.__name__}", "")
    is_legal = {-1: False, 0: allowed in ("same", "both"), 1: allowed in ("higher", "both")}[step]
    problem = why_illegal(old, new, may_lead=True)
    assert (problem is None) == is_legal, problem
    made = replicas.replica(old)
    if is_legal:
        become(made, new)
        assert made.state is new
    else:
        with pytest.raises(AssertionError):
            become(made, new)
        assert made.state is old


@pytest.mark.conformance(76, 77, 79, 81, 82, 85, 86)
def test_the_table_holds_nothing_else() -> None:
    assert {f"{old.__name__} {new.__name__}" for old, new in MOVES} == set(LEGAL)


@pytest.mark.conformance(76, 77, 79, 80, 82, 83)
@pytest.mark.parametrize(
    ("old", "new", "is_voter", "reason"),
    [
        (replicas.leader(), replicas.candidate(epoch=6), True, "no such transition"),
        (replicas.candidate(), replicas.leader(epoch=6), True, "not in this epoch"),
        (replicas.unattached(), replicas.prospective(), False, "an observer does not campaign"),
        (replicas.prospective(), replicas.candidate(epoch=6), False, "an observer does not campaign"),
        (replicas.candidate(count=WON), replicas.leader(), False, "an observer does not campaign"),
        (replicas.candidate(), replicas.leader(), True, "without a majority"),
        (replicas.unattached(voted=2), replicas.unattached(voted=3), True, "the vote of an epoch is cast once"),
        (replicas.unattached(), replicas.unattached(), True, "the vote of an epoch is cast once"),
        (replicas.prospective(voted=2), replicas.prospective(voted=3), True, "the vote of an epoch is cast once"),
        (replicas.prospective(), replicas.prospective(), True, "the vote of an epoch is cast once"),
        (
            replicas.follower(has_fetched=True),
            replace(replicas.follower(), leader_id=NodeId(3)),
            True,
            "an epoch has one leader",
        ),
        (replicas.follower(), replicas.follower(), True, "nothing new is known of the leader"),
    ],
)
def test_why_not(old: State, new: State, is_voter: bool, reason: str) -> None:
    problem = why_illegal(old, new, may_lead=is_voter)
    assert problem is not None
    assert problem.endswith(reason)


@pytest.mark.conformance(78)
def test_nobody_follows_itself() -> None:
    with pytest.raises(AssertionError):
        become(replicas.replica(replicas.unattached()), replicas.follower(leader_id=1))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (replicas.prospective(), replicas.unattached(), True),
        (replicas.prospective(), replicas.candidate(epoch=6), True),
        (replicas.candidate(count=WON), replicas.leader(), True),
        (replicas.unattached(), replicas.follower(), True),
        (replicas.unattached(), replicas.prospective(), False),
        (replicas.prospective(), replicas.prospective(voted=3), True),
        (replicas.leader(), replicas.resigned(), False),
    ],
)
def test_what_is_durable(old: State, new: State, expected: bool) -> None:
    assert is_durable(old, new) is expected
    made = replicas.replica(old)
    become(made, new)
    assert ("WriteElectionState" in replicas.kinds(replicas.done(made))) is expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            replicas.prospective(),
            replicas.candidate(epoch=6),
            Election(epoch=replicas.candidate(epoch=6).epoch, voted=replicas.key(1)),
        ),
        (replicas.candidate(count=WON), replicas.leader(), Election(epoch=replicas.EPOCH, leader_id=NodeId(1))),
        (
            replicas.unattached(voted=3),
            replicas.follower(voted=3),
            Election(epoch=replicas.EPOCH, leader_id=NodeId(2), voted=replicas.key(3)),
        ),
        (
            replicas.unattached(leader_id=2),
            replicas.unattached(leader_id=2, voted=3),
            Election(epoch=replicas.EPOCH, leader_id=NodeId(2), voted=replicas.key(3)),
        ),
    ],
)
def test_what_is_written(old: State, new: State, expected: Election) -> None:
    made = replicas.replica(old)
    become(made, new)
    written = replicas.only(replicas.done(made), WriteElectionState)
    assert written.election == expected
    assert written.voters == (1, 2, 3)
    assert written.kraft_version == 0


@pytest.mark.conformance(43)
def test_every_transition_forgets_the_requests_in_flight() -> None:
    made = replicas.replica(replicas.unattached())
    late = made.connections.sent(2, 0)
    made.connections.back_off(3, 0)
    become(made, replicas.prospective())
    assert not made.connections.received(2, late)
    assert made.connections.is_ready(3)


@pytest.mark.conformance(11, 42, 117, "H31")
@pytest.mark.parametrize("new", [replicas.resigned(), replicas.unattached(epoch=6), replicas.follower(epoch=6)])
def test_fetches_that_wait_are_refused_when_leadership_ends(new: State) -> None:
    made = replicas.replica(replicas.leader())
    made.parked.park(ParkedFetch(request_id=4, listener=replicas.LISTENER, request=fetch(), deadline_ms=99))
    become(made, new)
    reply = replicas.only(replicas.done(made), Reply)
    assert isinstance(reply.message, FetchResponse)
    assert (reply.request_id, reply.message.error) == (4, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert (reply.message.epoch, reply.message.leader_id, reply.message.high_watermark) == (
        new.epoch,
        made.leader_id,
        None,
    )
    assert made.parked.take_all() == []


def test_listeners_hear_of_a_higher_epoch_and_of_its_leader_once() -> None:
    made = replicas.replica(replicas.unattached())
    told = []
    for state in (
        replicas.follower(),
        replicas.prospective(leader_id=2),
        replicas.candidate(epoch=6, count=replicas.tally(granted=(1, 2))),
        replicas.leader(epoch=6),
        replicas.resigned(epoch=6),
        replicas.unattached(epoch=7),
        replicas.follower(epoch=8),
    ):
        become(made, state)
        told += [
            (one.epoch, one.leader_id, one.epoch_start_offset)
            for one in replicas.done(made)
            if isinstance(one, NotifyLeaderChange)
        ]
    assert told == [(5, 2, None), (6, None, None), (6, 1, 10), (7, None, None), (8, 2, None)]


def test_the_role_is_told_when_it_changes() -> None:
    made = replicas.replica(replicas.unattached())
    become(made, replicas.unattached(voted=3))
    assert replicas.only(replicas.done(made), NotifyRole) == NotifyRole(role="unattached-voted", epoch=replicas.EPOCH)
    become(made, replicas.unattached(epoch=6, voted=3))
    assert replicas.only(replicas.done(made), NotifyRole).epoch == 6
