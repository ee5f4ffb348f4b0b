"""Pre-votes: which state grants one, and that it leaves no trace (KIP-996).

Source: KIP-996; Raft dissertation §9.6; Kafka ``KafkaRaftClient.handleVoteRequest``, ``ProspectiveState``.
"""

from dataclasses import replace

import pytest

from pykraft.core import messages
from pykraft.core.effects import Effect, Reply, WriteElectionState
from pykraft.core.on.timer import poll
from pykraft.core.replica import Replica
from pykraft.core.state import Candidate, Follower, Prospective, State, Unattached
from pykraft.errors import ErrorCode
from pykraft.types import Election, Epoch, Instant, Listeners, NodeId
from tests.core.replicas import (
    LATER_MS,
    STATES,
    answer,
    ask,
    candidate,
    done,
    follower,
    key,
    kinds,
    only,
    prospective,
    replica,
    resigned,
    tally,
    unattached,
)
from tests.core.said import fetched, vote, voted

VOTER, OBSERVER = 1, 7
"""The replica that is asked."""
ASKING_VOTER, ASKING_OBSERVER = 3, 8
DUE = Instant(mono_ms=LATER_MS, wall_ms=0)


def asked(
    made: Replica, *, epoch: int = 5, candidate: int = ASKING_VOTER, end: tuple[int, int] = (10, 3)
) -> tuple[messages.VoteResponse, list[Effect]]:
    """The answer to a pre-vote request, and everything that was done for it."""
    found = ask(made, vote(epoch=epoch, candidate=candidate, end=end, pre_vote=True))
    message = only(found, Reply).message
    assert isinstance(message, messages.VoteResponse)
    return message, found


def is_granted(made: Replica, *, epoch: int = 5, candidate: int = ASKING_VOTER, end: tuple[int, int] = (10, 3)) -> bool:
    return asked(made, epoch=epoch, candidate=candidate, end=end)[0].vote_granted


@pytest.mark.parametrize("local_id", [VOTER, pytest.param(OBSERVER, marks=pytest.mark.conformance(60))])
@pytest.mark.parametrize("voted_id", [None, pytest.param(2, marks=pytest.mark.conformance(57))])
@pytest.mark.parametrize("asking_id", [ASKING_VOTER, ASKING_OBSERVER])
@pytest.mark.conformance(56, "H4")
def test_a_follower_grants_until_it_has_fetched(local_id: int, voted_id: int | None, asking_id: int) -> None:
    made = replica(follower(voted=voted_id), local_id=local_id)
    before = made.state
    response, found = asked(made, candidate=asking_id)
    assert (response.error, response.vote_granted, response.leader_id) == (0, True, 2)
    assert kinds(found) == ["Reply"]
    assert made.state is before
    answer(made, fetched())
    response, _ = asked(made, candidate=asking_id)
    assert (response.error, response.vote_granted, response.leader_id) == (0, False, 2)


@pytest.mark.parametrize(
    ("make", "local_id"),
    [
        pytest.param(lambda: follower(voted=2), VOTER, marks=pytest.mark.conformance(56, 57)),
        pytest.param(follower, OBSERVER, marks=pytest.mark.conformance(60)),
        pytest.param(candidate, VOTER, marks=pytest.mark.conformance(58)),
        pytest.param(resigned, VOTER, marks=pytest.mark.conformance(62)),
    ],
)
def test_a_higher_epoch_is_adopted_and_granted_without_a_vote(make: object, local_id: int) -> None:
    assert callable(make)
    made = replica(make(), local_id=local_id)
    response, found = asked(made, epoch=6)
    assert isinstance(made.state, Unattached)
    assert (response.vote_granted, response.epoch, response.leader_id, made.voted) == (True, 6, None, None)
    assert only(found, WriteElectionState).election == Election(epoch=Epoch(6))


@pytest.mark.conformance(59, "H7")
@pytest.mark.parametrize("local_id", [VOTER, OBSERVER])
@pytest.mark.parametrize("state", [unattached(), unattached(voted=3), unattached(leader_id=2), unattached(voted=8)])
def test_whoever_is_unattached_grants_to_all_and_again(state: Unattached, local_id: int) -> None:
    made = replica(state, local_id=local_id)
    for asking_id in (3, 3, 2, 8, 8, 9):
        response, found = asked(made, candidate=asking_id)
        assert (response.vote_granted, response.leader_id) == (True, state.leader_id)
        assert kinds(found) == ["Reply"]
    assert made.state is state


@pytest.mark.conformance(64, "H6")
@pytest.mark.parametrize("end", [(9, 3), (99, 2), (0, 0)])
@pytest.mark.parametrize("name", STATES)
def test_a_shorter_log_gets_none(name: str, end: tuple[int, int]) -> None:
    assert not is_granted(replica(STATES[name]()), end=end)


@pytest.mark.conformance(73, "H2")
@pytest.mark.parametrize("name", STATES)
def test_neither_asking_nor_being_asked_writes_anything(name: str) -> None:
    made = replica(STATES[name]())
    for asking_id in (2, 3, 8):
        assert "WriteElectionState" not in kinds(asked(made, candidate=asking_id)[1])
    poll(made, Instant(mono_ms=LATER_MS - 1, wall_ms=0))
    assert "WriteElectionState" not in kinds(done(made))


@pytest.mark.conformance(73, "H2")
@pytest.mark.parametrize("state", [unattached(voted=3, leader_id=2), follower(voted=3)])
def test_a_campaign_begins_and_ends_with_the_same_file(state: State) -> None:
    made = replica(state)
    file = Election(epoch=Epoch(5), leader_id=NodeId(2), voted=key(3))
    poll(made, DUE)
    assert isinstance(made.state, Prospective)
    found = [
        *done(made),
        *answer(made, voted(granted=False, leader_id=2), peer_id=2),
        *answer(made, voted(granted=False, leader_id=2), peer_id=3),
    ]
    assert not isinstance(made.state, Prospective)
    assert {effect.election for effect in found if isinstance(effect, WriteElectionState)} == {file}


def test_a_denial_of_who_may_not_have_heard_the_goodbye_is_asked_for_again() -> None:
    made = replica(replace(prospective(leader_id=2), leader_has_left=True, tally=tally(voters=(1, 2, 3))))
    for peer_id in (2, 3):
        answer(made, voted(granted=False), peer_id=peer_id)
        assert made.connections.is_backing_off(peer_id)
    assert isinstance(made.state, Prospective)
    assert made.state.tally.unanswered == (2, 3)
    answer(made, voted(), peer_id=3)
    assert isinstance(made.state, Candidate)


@pytest.mark.conformance(66)
def test_a_candidate_that_hears_of_software_without_pre_votes_goes_on() -> None:
    made = replica(candidate())
    before = made.state
    answer(made, messages.TopLevelError(error=ErrorCode.UNSUPPORTED_VERSION))
    assert made.state is before
    assert isinstance(before, Candidate)


@pytest.mark.conformance(70)
def test_a_leader_without_endpoints_is_kept_in_mind_from_campaign_to_campaign() -> None:
    made = replica(replace(prospective(leader_id=9), leader_listeners=Listeners()))
    seen = []
    for now_ms in (LATER_MS, LATER_MS + 2_000):
        poll(made, Instant(mono_ms=now_ms, wall_ms=0))
        seen += [effect.role for effect in done(made) if hasattr(effect, "role")]
        assert isinstance(made.state, Prospective)
        assert made.leader_id == 9
    assert seen == ["unattached", "prospective"] * 2
    lost = replica(replace(prospective(leader_id=9), leader_listeners=Listeners(), tally=tally(rejected=(3,))))
    answer(lost, voted(granted=False))
    assert isinstance(lost.state, Unattached)
    assert lost.leader_id == 9


@pytest.mark.conformance(71, "H9")
@pytest.mark.parametrize("granted", [True, False])
def test_an_answer_that_names_the_leader_ends_the_campaign(granted: bool) -> None:
    made = replica(prospective(voted=3))
    answer(made, voted(granted=granted, leader_id=2), peer_id=3)
    assert isinstance(made.state, Follower)
    assert (made.epoch, made.leader_id, made.voted) == (5, 2, key(3))
