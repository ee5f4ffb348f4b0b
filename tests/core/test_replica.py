"""Look-ups that all handlers use, in every state."""

import pytest

from pykraft.config import RaftConfig
from pykraft.core.replica import LocalReplica
from pykraft.core.state import State
from pykraft.types import EPOCH_MAX, ZERO_UUID, Endpoint, Listeners, NodeId, ReplicaKey, Voter, VoterSet
from tests.core import replicas

# leader id, id of the leader whose endpoints are known, vote, high watermark, role
KNOWN = {
    "unattached": (None, None, None, 4, "unattached"),
    "unattached-voted": (None, None, 3, 4, "unattached-voted"),
    "unattached-led": (2, None, None, 4, "unattached"),
    "prospective": (None, None, None, 4, "prospective"),
    "prospective-voted": (None, None, 3, 4, "prospective-voted"),
    "prospective-led": (2, 2, None, 4, "prospective"),
    "candidate": (None, None, 1, 4, "candidate"),
    "leader": (1, 1, None, None, "leader"),
    "follower": (2, 2, None, 4, "follower"),
    "follower-fetched": (2, 2, None, 4, "follower"),
    "resigned": (1, 1, None, None, "resigned"),
}


@pytest.mark.conformance(84, 88, 92)
@pytest.mark.parametrize("name", replicas.STATES)
def test_what_each_state_knows(name: str) -> None:
    made = replicas.replica(replicas.STATES[name]())
    leader_id, reachable_id, voted_id, high_watermark, role = KNOWN[name]
    assert (made.epoch, made.leader_id, made.high_watermark, made.role) == (5, leader_id, high_watermark, role)
    assert made.leader_listeners == (replicas.listeners(reachable_id) if reachable_id else Listeners())
    assert made.has_reachable_leader == (reachable_id is not None)
    assert made.has_remote_leader == (leader_id == 2)
    assert made.voted == (replicas.key(voted_id) if voted_id else None)


def test_a_follower_that_is_no_voter_is_called_observer() -> None:
    assert replicas.replica(replicas.follower(), local_id=4).role == "observer"


@pytest.mark.parametrize(
    ("local_id", "voters", "is_voter", "is_only"),
    [(1, (1, 2), True, False), (1, (1,), True, True), (4, (1,), False, False), (None, (1,), False, False)],
)
def test_who_is_a_voter(local_id: int | None, voters: tuple[int, ...], is_voter: bool, is_only: bool) -> None:
    made = replicas.replica(local_id=local_id, voters=replicas.voter_set(*voters))
    assert (made.is_voter, made.is_only_voter, made.may_campaign) == (is_voter, is_only, is_voter)


def test_another_directory_makes_another_replica() -> None:
    other = VoterSet.of([Voter(key=ReplicaKey(NodeId(1), replicas.directory(9)), listeners=replicas.listeners(1))])
    assert not replicas.replica(voters=other).is_voter


@pytest.mark.parametrize("state", [replicas.unattached(epoch=EPOCH_MAX), replicas.prospective(epoch=EPOCH_MAX)])
def test_nobody_campaigns_after_the_last_epoch_or_while_leaving(state: State) -> None:
    assert not replicas.replica(state).may_campaign
    leaving = replicas.replica(replicas.candidate())
    leaving.shutdown_deadline_ms = 0
    assert leaving.is_shutting_down
    assert not leaving.may_campaign


def test_the_zero_directory_is_nobodys() -> None:
    with pytest.raises(AssertionError):
        LocalReplica(
            id=NodeId(1), directory_id=ZERO_UUID, listeners=replicas.listeners(1), default_listener=replicas.LISTENER
        )


def test_bootstrap_servers_have_ids_of_their_own_or_are_the_other_voters() -> None:
    made = replicas.replica(bootstrap=(Endpoint("a", 1), Endpoint("b", 2)))
    assert [(peer.id, str(peer.endpoint)) for peer in made.bootstrap_peers()] == [(-2, "a:1"), (-3, "b:2")]
    static = VoterSet.of([*replicas.voter_set(1, 2).voters, Voter(key=replicas.key(3), listeners=Listeners())])
    assert [peer.id for peer in replicas.replica(voters=static).bootstrap_peers()] == [2]
    assert replicas.replica(voters=static).voter_peer(NodeId(9)) is None


@pytest.mark.parametrize(("is_voter", "expected"), [(True, [-2]), (False, [-2, 3])])
def test_an_observer_asks_the_voters_too(is_voter: bool, expected: list[int]) -> None:
    voters = replicas.voter_set(1, 2, 3) if is_voter else replicas.voter_set(2, 3)
    made = replicas.replica(replicas.follower(leader_id=2), voters=voters, bootstrap=(Endpoint("n2", 9_002),))
    assert [peer.id for peer in made.bootstrap_peers()] == expected


def test_an_answer_names_the_leader_on_the_listener_that_was_asked() -> None:
    made = replicas.replica(replicas.leader())
    assert made.reply_listeners(replicas.LISTENER.lower()) == replicas.listeners(1)
    assert made.reply_listeners("OTHER") == Listeners()
    assert replicas.replica(replicas.unattached()).reply_listeners(replicas.LISTENER) == Listeners()


def test_endpoints_of_a_leader_are_those_told_or_those_of_the_voter_set() -> None:
    made = replicas.replica(replicas.resigned())
    assert made.listeners_of(NodeId(2), replicas.listeners(7)) == replicas.listeners(7)
    assert made.listeners_of(NodeId(2), Listeners()) == replicas.listeners(2)
    assert made.listeners_of(NodeId(9), Listeners()) == Listeners()


@pytest.mark.parametrize(("timeout_ms", "least", "most"), [(1_000, 1_000, 1_999), (0, 1, 1), (1, 1, 1)])
def test_election_deadlines_are_never_now(timeout_ms: int, least: int, most: int) -> None:
    made = replicas.replica(config=RaftConfig(election_timeout_ms=timeout_ms))
    drawn = {made.draw_election_deadline_ms(replicas.NOW) - replicas.NOW.mono_ms for _ in range(50)}
    assert least <= min(drawn) <= max(drawn) <= most
