"""What a state forbids or carries over, state by state; `test_transitions` tries every pair.

Source: KIP-595 §State machine, KIP-996; Kafka ``QuorumState.transitionTo*`` and its state classes.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest

from pykraft.core import enter_state
from pykraft.core.effects import WriteElectionState
from pykraft.core.election import NEVER_MS
from pykraft.core.on.following import learn_leader
from pykraft.core.on.timer import poll
from pykraft.core.replica import Replica
from pykraft.core.state import Follower, Prospective, State, Unattached
from pykraft.core.transitions import become, why_illegal
from pykraft.types import Election, Epoch, Instant, Listeners, NodeId
from tests.core import replicas
from tests.core.said import vote

OBSERVER = 7
DUE = Instant(mono_ms=replicas.LATER_MS, wall_ms=0)
HIGHER: tuple[Callable[[Replica], None], ...] = (
    lambda made: enter_state.to_unattached(made, Epoch(6), replicas.NOW),
    lambda made: enter_state.to_follower(made, Epoch(6), NodeId(2), replicas.listeners(2), replicas.NOW),
)


def is_drawn(deadline_ms: int, now: Instant = replicas.NOW) -> bool:
    return now.mono_ms + 1_000 <= deadline_ms < now.mono_ms + 2_000


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("candidate", marks=pytest.mark.conformance(76)),
        pytest.param("leader", marks=pytest.mark.conformance(77)),
        pytest.param("follower", marks=pytest.mark.conformance(82)),
        pytest.param("follower-fetched", marks=pytest.mark.conformance(82)),
        pytest.param("resigned", marks=pytest.mark.conformance(86)),
    ],
)
def test_no_vote_can_be_added_to(name: str) -> None:
    made = replicas.replica(replicas.STATES[name]())
    before = made.state
    with pytest.raises(AssertionError):
        enter_state.cast_vote(made, replicas.key(3), replicas.NOW)
    assert made.state is before
    assert replicas.done(made) == []


@pytest.mark.conformance(79)
def test_a_vote_is_cast_in_the_own_epoch_and_a_higher_one_adopted_first() -> None:
    made = replicas.replica(replicas.unattached())
    enter_state.cast_vote(made, replicas.key(3), replicas.NOW)
    assert (made.epoch, made.voted) == (5, replicas.key(3))
    found = replicas.ask(made, vote(epoch=6, candidate=2))
    assert (made.epoch, made.voted) == (6, replicas.key(2))
    assert replicas.only(found, WriteElectionState).election == Election(epoch=Epoch(6), voted=replicas.key(2))


@pytest.mark.conformance(80, 83)
@pytest.mark.parametrize(
    "state",
    [replicas.unattached(), replicas.unattached(voted=3), replicas.unattached(leader_id=2), replicas.follower()],
)
def test_an_observer_stands_for_nothing(state: State) -> None:
    made = replicas.replica(state, local_id=OBSERVER)
    poll(made, Instant(mono_ms=replicas.LATER_MS * 10, wall_ms=0))
    assert made.state is state
    for new in (replicas.prospective(), replicas.candidate(), replicas.leader()):
        with pytest.raises(AssertionError):
            become(made, new)
    assert made.state is state


@pytest.mark.conformance(83)
def test_a_leader_outside_the_voter_set_is_followed() -> None:
    made = replicas.replica(replicas.unattached())
    enter_state.to_follower(made, Epoch(5), NodeId(9), replicas.listeners(9), replicas.NOW)
    assert isinstance(made.state, Follower)
    assert made.leader_id == 9
    told = replicas.replica(replicas.unattached())
    learn_leader(told, Epoch(6), NodeId(9), replicas.listeners(9), replicas.NOW)
    assert (told.role, told.epoch, told.leader_id) == ("follower", 6, 9)


@pytest.mark.conformance(83)
def test_an_observer_with_an_id_votes_and_comes_and_goes_with_leaders() -> None:
    made = replicas.replica(replicas.unattached(), local_id=OBSERVER)
    replicas.ask(made, vote(epoch=6))
    assert (made.role, made.voted) == ("unattached-voted", replicas.key(3))
    seen = []
    for epoch, leader_id in ((6, 3), (7, None), (8, 2), (9, None)):
        known = None if leader_id is None else NodeId(leader_id)
        learn_leader(made, Epoch(epoch), known, replicas.listeners(leader_id or 0), replicas.NOW)
        seen.append((made.role, made.epoch, made.leader_id))
        assert leader_id or replicas.only(replicas.done(made), WriteElectionState).election.leader_id is None
        replicas.done(made)
    assert seen == [("observer", 6, 3), ("unattached", 7, None), ("observer", 8, 2), ("unattached", 9, None)]
    assert isinstance(made.state, Unattached)
    assert made.state.election_deadline_ms == NEVER_MS


@pytest.mark.conformance(84)
@pytest.mark.parametrize("name", replicas.STATES)
def test_a_replica_knows_whether_another_one_leads(name: str) -> None:
    is_remote = name.startswith("follower") or name.endswith("-led")
    assert replicas.replica(replicas.STATES[name]()).has_remote_leader is is_remote


PROSPECTIVE: dict[str, Callable[[], Prospective]] = {
    "fresh": replicas.prospective,
    "voted": lambda: replicas.prospective(voted=3),
    "led": lambda: replicas.prospective(leader_id=2, voted=3),
}


@pytest.mark.conformance(85)
def test_a_lost_campaign_draws_a_new_time_and_one_out_of_time_begins_anew_at_once() -> None:
    lost = replicas.replica(replicas.prospective(count=replicas.tally(rejected=(2, 3))))
    enter_state.give_up_campaign(lost, replicas.NOW)
    assert isinstance(lost.state, Unattached)
    assert is_drawn(lost.state.election_deadline_ms)
    late = replicas.replica(replicas.prospective())
    enter_state.give_up_campaign(late, DUE)
    assert isinstance(late.state, Unattached)
    assert late.state.election_deadline_ms == replicas.LATER_MS


@pytest.mark.conformance(86)
def test_a_resigned_leader_goes_on_in_the_next_epoch_as_a_voter_like_others() -> None:
    made = replicas.replica(replicas.resigned())
    poll(made, DUE)
    written = [one.election for one in replicas.done(made) if isinstance(one, WriteElectionState)]
    assert written == [Election(epoch=Epoch(6))]
    assert (made.role, made.epoch, made.leader_id, made.voted) == ("prospective", 6, None, None)


@pytest.mark.conformance(86)
def test_a_resigned_leader_that_is_no_voter_any_more_waits_in_the_next_epoch() -> None:
    made = replicas.replica(replicas.resigned(), voters=replicas.voter_set(2, 3))
    poll(made, DUE)
    assert (made.role, made.epoch) == ("unattached", 6)
    assert isinstance(made.state, Unattached)
    assert made.state.election_deadline_ms == NEVER_MS


@pytest.mark.conformance(82)
def test_a_follower_learns_more_endpoints_of_its_leader_and_nothing_else() -> None:
    more = replace(replicas.follower(), leader_listeners=replicas.listeners(2, "OTHER"))
    assert why_illegal(replicas.follower(), more, may_lead=True) is None
    for same_or_other in (
        replicas.follower(),
        replace(replicas.follower(), leader_listeners=Listeners((("OTHER", replicas.listeners(2).entries[0][1]),))),
    ):
        assert why_illegal(replicas.follower(), same_or_other, may_lead=True) is not None
    another = replace(more, leader_id=NodeId(3))
    assert why_illegal(replicas.follower(has_fetched=True), another, may_lead=True) is not None
    assert why_illegal(replicas.follower(), another, may_lead=True) is None, "it was only told of the first"
    assert why_illegal(more, replicas.follower(), may_lead=True) is not None
