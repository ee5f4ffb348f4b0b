"""The first state: every row of the start-up table.

Source: KIP-595 §State machine; Kafka ``QuorumState.initialize``.
"""

from __future__ import annotations

from random import Random

import pytest

from pykraft.core.log_view import LogView
from pykraft.core.quarantine import Quarantine
from pykraft.core.replica import LocalReplica
from pykraft.core.start import initial_state
from pykraft.core.state import Candidate, Follower, Resigned, State, Unattached
from pykraft.errors import UsageError
from pykraft.types import Election, Epoch, NodeId, Offset, ReplicaKey, Voter, VoterSet
from tests.core.replicas import CONFIG, LISTENER, NOW, directory, key, listeners, log_to_10, tally, voter_set


def start(
    election: Election, *, local_id: int | None = 1, voters: VoterSet | None = None, log: LogView | None = None
) -> State:
    return initial_state(
        config=CONFIG,
        local=LocalReplica(
            id=None if local_id is None else NodeId(local_id),
            directory_id=directory(1),
            listeners=listeners(1),
            default_listener=LISTENER,
        ),
        voters=voters or voter_set(1, 2, 3),
        election=election,
        log=log or log_to_10(),
        rng=Random(1),
        now=NOW,
    )


def election(epoch: int = 5, leader_id: int | None = None, voted: ReplicaKey | None = None) -> Election:
    return Election(epoch=Epoch(epoch), leader_id=None if leader_id is None else NodeId(leader_id), voted=voted)


@pytest.mark.conformance(84)
def test_a_vote_without_an_id_is_a_mistake_of_the_configuration() -> None:
    with pytest.raises(UsageError, match=r"node\.id"):
        start(election(voted=key(2)), local_id=None)


@pytest.mark.conformance(74)
def test_the_log_knows_of_a_higher_epoch() -> None:
    state = start(election(epoch=2, leader_id=1, voted=key(1)))
    assert isinstance(state, Unattached)
    assert (state.epoch, state.leader_id, state.voted) == (3, None, None)


@pytest.mark.conformance(7, 74, 91, "H37")
@pytest.mark.parametrize("epoch", [3, 5])
def test_a_leader_of_the_last_epoch_has_resigned(epoch: int) -> None:
    state = start(election(epoch=epoch, leader_id=1))
    assert isinstance(state, Resigned)
    assert (state.epoch, state.leader_id, sorted(state.unacknowledged), state.successors) == (epoch, 1, [2, 3], ())


@pytest.mark.conformance(74)
def test_leadership_is_remembered_by_id_alone() -> None:
    assert isinstance(start(election(leader_id=1), voters=voter_set(2, 3)), Resigned)


@pytest.mark.conformance(5, 17, 74)
@pytest.mark.parametrize("directory_id", [directory(1), None])
def test_a_candidate_asks_again_in_its_epoch(directory_id: bytes | None) -> None:
    state = start(election(voted=ReplicaKey(NodeId(1), directory(1) if directory_id else None)))
    assert isinstance(state, Candidate)
    assert (state.epoch, state.voted, state.tally) == (5, key(1), tally())


@pytest.mark.parametrize(("leader_id", "state"), [(None, Unattached), (2, Follower)])
def test_with_a_damaged_log_nobody_is_asked_to_confirm_an_own_vote(leader_id: int | None, state: type[State]) -> None:
    log = log_to_10()
    log.quarantine = Quarantine(epoch=Epoch(5), until_offset=None, damages=(), is_cut=True)
    begun = start(election(voted=key(1), leader_id=leader_id), log=log)
    assert isinstance(begun, Unattached | Follower)
    assert type(begun) is state
    assert begun.voted == key(1)


@pytest.mark.conformance(74)
@pytest.mark.parametrize(("leader_id", "state"), [(2, Follower), (9, Unattached)])
def test_who_knows_the_leader_of_its_epoch_does_not_campaign_in_it_again(leader_id: int, state: type[State]) -> None:
    begun = start(election(leader_id=leader_id, voted=key(1)))
    assert isinstance(begun, Unattached | Follower)
    assert type(begun) is state
    assert (begun.epoch, begun.leader_id, begun.voted) == (5, leader_id, key(1))


@pytest.mark.conformance(74)
def test_a_vote_for_the_same_id_with_another_directory_is_a_vote_for_another() -> None:
    other = ReplicaKey(NodeId(1), directory(9))
    state = start(election(voted=other))
    assert isinstance(state, Unattached)
    assert state.voted == other


@pytest.mark.conformance(74)
def test_a_candidate_that_is_no_voter_any_more_does_not_campaign() -> None:
    state = start(election(voted=key(1)), voters=voter_set(2, 3))
    assert isinstance(state, Unattached)
    assert state.voted == key(1)


@pytest.mark.conformance(74)
def test_a_follower_goes_on_following() -> None:
    state = start(election(leader_id=2, voted=key(3)))
    assert isinstance(state, Follower)
    assert (state.epoch, state.leader_id, state.leader_listeners, state.voted) == (5, 2, listeners(2), key(3))
    assert (state.has_fetched, state.high_watermark) == (False, None)
    assert state.fetch_deadline_ms == NOW.mono_ms + CONFIG.fetch_timeout_ms


@pytest.mark.conformance(75)
def test_a_leader_that_cannot_be_reached_is_remembered() -> None:
    state = start(election(leader_id=9, voted=key(3)))
    assert isinstance(state, Unattached)
    assert (state.epoch, state.leader_id, state.voted) == (5, 9, key(3))


@pytest.mark.conformance(74)
@pytest.mark.parametrize("voted", [None, key(3)])
def test_otherwise_unattached(voted: ReplicaKey | None) -> None:
    state = start(election(voted=voted))
    assert isinstance(state, Unattached)
    assert (state.epoch, state.leader_id, state.voted) == (5, None, voted)


@pytest.mark.conformance(74)
def test_a_new_replica_begins_at_epoch_0_and_waits_an_election_timeout() -> None:
    state = start(Election(), log=LogView(start_offset=Offset(0), end_offset=Offset(0)))
    assert isinstance(state, Unattached)
    assert state.epoch == 0
    assert 1_000 <= state.election_deadline_ms - NOW.mono_ms < 2_000


@pytest.mark.conformance(84)
def test_an_observer_without_id_does_not_take_an_unknown_leader_for_itself() -> None:
    assert isinstance(start(election(), local_id=None), Unattached)


ANONYMOUS = VoterSet.of(Voter(key=ReplicaKey(NodeId(node_id)), listeners=listeners(node_id)) for node_id in (1, 2, 3))
"""Configured voters, at level 0: nobody's directory id is known."""
REPLACED = VoterSet.of(
    [Voter(key=ReplicaKey(NodeId(1), directory(9)), listeners=listeners(1)), *voter_set(2, 3).voters]
)
"""At level 1: the voter with this replica's id has another disk."""


@pytest.mark.conformance(74)
@pytest.mark.parametrize(
    ("remembered", "at_level_0", "at_level_1", "on_a_new_disk"),
    [
        pytest.param(Election(), Unattached, Unattached, Unattached, id="nothing"),
        pytest.param(election(), Unattached, Unattached, Unattached, id="an epoch"),
        pytest.param(election(leader_id=2), Follower, Follower, Follower, id="a leader"),
        pytest.param(election(voted=key(2)), Unattached, Unattached, Unattached, id="a vote"),
        pytest.param(election(voted=ReplicaKey(NodeId(2))), Unattached, Unattached, Unattached, id="a vote for an id"),
        pytest.param(election(leader_id=2, voted=key(2)), Follower, Follower, Follower, id="a vote for its leader"),
        pytest.param(election(voted=key(1)), Candidate, Candidate, Unattached, id="an own vote"),
        pytest.param(election(voted=ReplicaKey(NodeId(1))), Candidate, Candidate, Unattached, id="an own vote by id"),
        pytest.param(election(leader_id=1, voted=key(1)), Resigned, Resigned, Resigned, id="leadership"),
    ],
)
def test_static_voters_are_known_by_id_and_those_of_the_log_by_their_disk_too(
    remembered: Election, at_level_0: type[State], at_level_1: type[State], on_a_new_disk: type[State]
) -> None:
    empty = LogView(start_offset=Offset(0), end_offset=Offset(0))
    found = [start(remembered, voters=voters, log=empty) for voters in (ANONYMOUS, voter_set(1, 2, 3), REPLACED)]
    assert [type(state) for state in found] == [at_level_0, at_level_1, on_a_new_disk]
    assert [state.epoch for state in found] == [remembered.epoch] * 3
