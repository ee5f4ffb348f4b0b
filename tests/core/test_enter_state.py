"""What each named transition carries over: vote, leader, high watermark, timer."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from pykraft import types
from pykraft.core import enter_state
from pykraft.core.effects import AppendBatches, RejectProposal, WriteElectionState
from pykraft.core.election import NEVER_MS
from pykraft.core.replica import Replica
from pykraft.core.state import Candidate, Follower, Leader, Prospective, Resigned, State, Unattached
from pykraft.core.voter_history import VoterHistory
from pykraft.errors import NotLeaderError
from tests.core import replicas

SIX = types.Epoch(6)


def is_drawn(deadline_ms: int) -> bool:
    return replicas.NOW.mono_ms + 1_000 <= deadline_ms < replicas.NOW.mono_ms + 2_000


@pytest.mark.conformance(79, 85)
@pytest.mark.parametrize(
    ("old", "keeps"),
    [
        (replicas.unattached(), True),
        (replicas.candidate(), True),
        (replicas.resigned(), True),
        (replicas.prospective(), True),
        (replicas.prospective(count=replicas.tally(rejected=(2, 3))), False),
        (replicas.follower(), False),
        (replicas.leader(), False),
    ],
)
def test_who_waits_for_an_election_goes_on_waiting(old: State, keeps: bool) -> None:
    made = replicas.replica(old)
    enter_state.to_unattached(made, SIX, replicas.NOW)
    state = made.state
    assert isinstance(state, Unattached)
    assert (state.election_deadline_ms == replicas.LATER_MS) == keeps
    assert keeps or is_drawn(state.election_deadline_ms)


def test_an_observer_waits_for_no_election() -> None:
    made = replicas.replica(replicas.follower(), local_id=4)
    enter_state.to_unattached(made, SIX, replicas.NOW)
    assert isinstance(made.state, Unattached)
    assert made.state.election_deadline_ms == NEVER_MS


@pytest.mark.conformance(80, 84, "H43")
@pytest.mark.parametrize("old", [make() for make in replicas.STATES.values()], ids=replicas.STATES)
def test_a_higher_epoch_keeps_nothing_but_the_high_watermark(old: State) -> None:
    made = replicas.replica(old)
    known = made.high_watermark
    enter_state.to_unattached(made, SIX, replicas.NOW, leader_id=types.NodeId(9))
    assert (made.epoch, made.leader_id, made.voted, made.high_watermark) == (6, 9, None, known)


@pytest.mark.conformance(80)
@pytest.mark.parametrize(("epoch", "voted"), [(5, replicas.key(3)), (6, None)])
def test_a_follower_keeps_its_vote_within_the_epoch(epoch: int, voted: object) -> None:
    made = replicas.replica(replicas.unattached(voted=3))
    enter_state.to_follower(made, types.Epoch(epoch), types.NodeId(2), replicas.listeners(2), replicas.NOW)
    assert isinstance(made.state, Follower)
    assert (made.epoch, made.leader_id, made.voted, made.high_watermark) == (epoch, 2, voted, 4)
    assert made.state.fetch_deadline_ms == replicas.NOW.mono_ms + 2_000
    assert not made.state.has_fetched


@pytest.mark.conformance(84, 85)
def test_a_prospective_replica_keeps_everything_it_knew() -> None:
    made = replicas.replica(replicas.follower(voted=3))
    enter_state.to_prospective(made, replicas.NOW)
    assert isinstance(made.state, Prospective)
    assert (made.epoch, made.leader_id, made.voted, made.high_watermark) == (5, 2, replicas.key(3), 4)
    assert made.state.leader_listeners == replicas.listeners(2)
    assert made.state.tally == replicas.tally()
    assert is_drawn(made.state.election_deadline_ms)


@pytest.mark.conformance(78, 85)
def test_a_candidate_votes_for_itself_in_the_next_epoch() -> None:
    made = replicas.replica(replicas.prospective(leader_id=2, voted=3))
    enter_state.to_candidate(made, replicas.NOW)
    assert isinstance(made.state, Candidate)
    assert (made.epoch, made.leader_id, made.voted, made.high_watermark) == (6, None, replicas.key(1), 4)
    assert made.state.tally == replicas.tally()
    assert is_drawn(made.state.election_deadline_ms)
    assert replicas.only(replicas.done(made), WriteElectionState).election == types.Election(
        epoch=SIX, voted=replicas.key(1)
    )


@pytest.mark.conformance(112, "H33")
def test_a_leader_opens_its_epoch_with_who_voted_for_it() -> None:
    made = replicas.replica(replicas.candidate(count=replicas.tally(granted=(1, 3))))
    enter_state.to_leader(made, replicas.NOW)
    state = made.state
    assert isinstance(state, Leader)
    assert (state.epoch_start_offset, state.granting_voters, state.high_watermark) == (10, (1, 3), None)
    assert (state.check_quorum_deadline_ms, state.begin_quorum_deadline_ms) == (
        replicas.NOW.mono_ms + 3_000,
        replicas.NOW.mono_ms,
    )
    assert state.accumulation.next_offset == made.log.end_offset == 11
    assert made.log.last_epoch == replicas.EPOCH
    (batch,) = replicas.only(replicas.done(made), AppendBatches).batches
    assert (batch.base_offset, batch.end_offset, batch.epoch, batch.timestamp_ms) == (
        10,
        11,
        replicas.EPOCH,
        replicas.NOW.wall_ms,
    )
    assert batch.control == (
        types.LeaderChange(
            leader_id=types.NodeId(1), voters=made.voters.ids, granting_voters=(types.NodeId(1), types.NodeId(3))
        ),
    )


@pytest.mark.conformance(2, 15)
def test_an_only_voter_leads_in_one_step_and_is_never_deposed() -> None:
    made = replicas.replica(replicas.unattached(), voters=replicas.voter_set(1))
    enter_state.to_prospective(made, replicas.NOW)
    assert isinstance(made.state, Leader)
    assert (made.epoch, made.state.check_quorum_deadline_ms) == (6, NEVER_MS)
    found = replicas.done(made)
    assert replicas.only(found, WriteElectionState).election == types.Election(epoch=SIX, leader_id=types.NodeId(1))
    (batch,) = replicas.only(found, AppendBatches).batches
    assert batch.control == (
        types.LeaderChange(leader_id=types.NodeId(1), voters=(types.NodeId(1),), granting_voters=(types.NodeId(1),)),
    )


@pytest.mark.conformance(44, 91, 93)
def opening(voters: types.VoterSet, *, level: int = 1) -> tuple[types.ControlRecord, ...]:
    """What the first of these voters, elected, writes first."""
    made = replicas.replica(replicas.candidate(count=replicas.tally(granted=(1, 2, 3))))
    records: list[tuple[types.Offset, types.MembershipRecord]] = [
        (types.Offset(4), types.KRaftVersion(1)),
        (types.Offset(5), types.KRaftVoters(voters)),
    ]
    made.voter_history = VoterHistory(voters, records if level else [])
    enter_state.to_leader(made, replicas.NOW)
    (batch,) = replicas.only(replicas.done(made), AppendBatches).batches
    return batch.control


def test_a_leader_that_was_moved_writes_where_it_is_with_its_first_record() -> None:
    here = types.Voter(key=replicas.key(1), listeners=replicas.listeners(1), kraft_version=types.KRAFT_VERSIONS)
    others = replicas.voter_set(2, 3).voters
    for there in (
        replace(here, listeners=replicas.listeners(7)),
        replace(here, kraft_version=types.VersionRange(0, 0)),
    ):
        told = opening(types.VoterSet.of([there, *others]))
        assert told[1:] == (types.KRaftVersion(1), types.KRaftVoters(types.VoterSet.of([here, *others])))
        assert len(opening(types.VoterSet.of([there, *others]), level=0)) == 1
    assert len(opening(types.VoterSet.of([here, *others]))) == 1


def test_a_resigned_leader_tells_the_others_most_caught_up_first() -> None:
    state = replicas.leader()
    state.progress.of(replicas.key(3)).fetched(types.Offset(9), types.Offset(10), replicas.NOW)
    made = replicas.replica(state)
    enter_state.to_resigned(made, replicas.NOW)
    assert isinstance(made.state, Resigned)
    assert (sorted(made.state.unacknowledged), made.state.successors) == ([2, 3], (replicas.key(3), replicas.key(2)))
    assert (made.epoch, made.leader_id, made.high_watermark) == (5, 1, None)
    assert is_drawn(made.state.election_deadline_ms)


@pytest.mark.conformance(23)
@pytest.mark.parametrize(
    ("leave", "leader_id"),
    [
        (lambda made: enter_state.to_resigned(made, replicas.NOW), None),
        (lambda made: enter_state.to_unattached(made, SIX, replicas.NOW), None),
        (lambda made: enter_state.to_follower(made, SIX, types.NodeId(2), replicas.listeners(2), replicas.NOW), 2),
    ],
)
def test_proposals_that_never_reached_the_log_are_refused(
    leave: Callable[[Replica], None], leader_id: int | None
) -> None:
    state = replicas.leader()
    state.accumulation.add(handle=8, count=1, size_bytes=1, now=replicas.NOW)
    made = replicas.replica(state)
    leave(made)
    refused = replicas.only(replicas.done(made), RejectProposal)
    assert refused.handle == 8
    assert isinstance(refused.error, NotLeaderError)
    assert refused.error.leader_id == leader_id


@pytest.mark.conformance(69, 85, "H9")
def test_a_campaign_given_up_returns_to_a_leader_that_can_be_reached() -> None:
    made = replicas.replica(replicas.prospective(leader_id=2, voted=3))
    enter_state.give_up_campaign(made, replicas.NOW)
    assert isinstance(made.state, Follower)
    assert (made.epoch, made.leader_id, made.voted) == (5, 2, replicas.key(3))


@pytest.mark.conformance(70, 85, "H10")
@pytest.mark.parametrize("leader_id", [None, 9])
def test_a_campaign_given_up_without_a_leader_keeps_what_is_known(leader_id: int | None) -> None:
    made = replicas.replica(
        Prospective(
            epoch=replicas.EPOCH,
            leader_id=None if leader_id is None else types.NodeId(leader_id),
            leader_listeners=types.Listeners(),
            voted=replicas.key(3),
            high_watermark=types.Offset(4),
            election_deadline_ms=replicas.LATER_MS,
            tally=replicas.tally(),
        )
    )
    enter_state.give_up_campaign(made, replicas.NOW)
    assert isinstance(made.state, Unattached)
    assert (made.epoch, made.leader_id, made.voted, made.high_watermark) == (5, leader_id, replicas.key(3), 4)
    assert made.state.election_deadline_ms == replicas.LATER_MS


@pytest.mark.conformance(85, "H12")
@pytest.mark.parametrize(
    "old",
    [replicas.unattached(leader_id=None), replicas.prospective(count=replicas.tally(granted=(1,), rejected=(2,)))],
)
def test_a_vote_starts_the_timer_anew_and_a_campaign_with_it(old: State) -> None:
    made = replicas.replica(old)
    enter_state.cast_vote(made, replicas.key(3), replicas.NOW)
    assert type(made.state) is type(old)
    assert isinstance(made.state, Unattached | Prospective)
    assert made.voted == replicas.key(3)
    assert is_drawn(made.state.election_deadline_ms)
    assert not isinstance(made.state, Prospective) or made.state.tally == replicas.tally()
    assert replicas.kinds(replicas.done(made)) == ["WriteElectionState", "NotifyRole"]


@pytest.mark.conformance(78)
def test_nobody_votes_for_itself_in_this_way() -> None:
    with pytest.raises(AssertionError):
        enter_state.cast_vote(replicas.replica(replicas.unattached()), replicas.key(1), replicas.NOW)
