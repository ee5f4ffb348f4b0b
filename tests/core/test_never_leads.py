"""A voter that never leads: when it campaigns all the same, what it rejects as leader, and when it hands over."""

from dataclasses import replace

import pytest

from pykraft.core import messages
from pykraft.core.departure import note_denial_of_leader
from pykraft.core.effects import RejectProposal
from pykraft.core.enter_state import to_leader
from pykraft.core.events import Proposed, UpgradeRequested
from pykraft.core.never_leads import TIMEOUTS_MAX, abstains, successor
from pykraft.core.on.contradiction import note_response
from pykraft.core.on.propose import on_proposed
from pykraft.core.on.timer import poll
from pykraft.core.on.voters.upgrade import on_upgrade_requested
from pykraft.core.replica import Replica
from pykraft.core.state import Follower, Leader, Prospective, Resigned, State, Unattached
from pykraft.types import Epoch, Instant, NodeId, Offset
from tests.core import replicas
from tests.core.on.test_pre_vote import asked
from tests.core.on.voters.test_upgrade import leader_that_knows, upgraded
from tests.core.said import vote

NEVER = replace(replicas.CONFIG, never_leads=True)
LONGER, SHORTER = (11, 3), (9, 3)


def made(state: State | None = None) -> Replica:
    return replicas.replica(state, config=NEVER)


def expire(one: Replica) -> None:
    """Let the present deadline expire."""
    state = one.state
    assert isinstance(state, Follower | Unattached)
    due_ms = state.fetch_deadline_ms if isinstance(state, Follower) else state.election_deadline_ms
    poll(one, Instant(mono_ms=due_ms, wall_ms=0))
    replicas.done(one)


@pytest.mark.parametrize(
    ("state", "timeouts"), [(replicas.follower(has_fetched=True), TIMEOUTS_MAX + 1), (replicas.unattached(), 3)]
)
def test_it_campaigns_after_three_election_timeouts_without_a_leader(state: State, timeouts: int) -> None:
    one = made(state)
    for _ in range(timeouts - 1):
        expire(one)
        assert type(one.state) is type(state)
    assert asked(one, end=LONGER)[0].vote_granted, "it takes the leader for dead"
    expire(one)
    assert isinstance(one.state, Prospective)


def test_an_answer_of_a_leader_begins_anew() -> None:
    one = made(replicas.follower(has_fetched=True))
    asked(one, end=SHORTER)
    note_response(one, replicas.NOW, has_progress=True)
    expire(one)
    assert isinstance(one.state, Follower)
    assert (one.leaderless_timeouts, one.has_denied_shorter_log) == (0, False)


def test_a_denied_shorter_log_makes_it_campaign_at_its_timeout() -> None:
    one = made(replicas.follower(has_fetched=True))
    assert not asked(one, end=SHORTER)[0].vote_granted
    assert isinstance(one.state, Follower)
    expire(one)
    assert isinstance(one.state, Prospective)


@pytest.mark.parametrize("state", [replicas.follower(has_fetched=True), replicas.unattached()])
def test_or_at_once_after_a_timeout(state: State) -> None:
    one = made(state)
    expire(one)
    assert not asked(one, end=SHORTER)[0].vote_granted
    poll(one, replicas.NOW)
    assert isinstance(one.state, Prospective)


def test_a_denied_standard_vote_counts_too() -> None:
    one = made(replicas.unattached())
    replicas.ask(one, vote(epoch=6, candidate=3, end=SHORTER))
    assert one.has_denied_shorter_log


@pytest.mark.parametrize(("voter_id", "end"), [(8, SHORTER), (3, LONGER)])
def test_a_stranger_or_a_longer_log_is_no_reason(voter_id: int, end: tuple[int, int]) -> None:
    one = made(replicas.follower(has_fetched=True))
    asked(one, candidate=voter_id, end=end)
    assert not one.has_denied_shorter_log


def test_a_refused_connection_is_no_reason_either() -> None:
    one = made(replace(replicas.follower(), early_deadline_ms=replicas.NOW.mono_ms))
    poll(one, replicas.NOW)
    assert isinstance(one.state, Follower)
    assert (one.state.early_deadline_ms, one.state.fetch_deadline_ms) == (None, replicas.LATER_MS)


def test_a_nominee_that_is_asked_only_takes_note() -> None:
    one = made(replicas.candidate())
    one.leaderless_timeouts = 1
    asked(one, end=SHORTER)
    assert one.has_denied_shorter_log


def test_nobody_else_can_lead_a_quorum_of_one() -> None:
    assert not abstains(replicas.replica(replicas.unattached(), config=NEVER, voters=replicas.voter_set(1)))
    assert abstains(made(replicas.unattached()))
    assert not abstains(replicas.replica(replicas.unattached()))


def test_it_hands_over_to_the_first_voter_with_the_whole_log() -> None:
    one = made(replicas.leader())
    assert isinstance(one.state, Leader)
    one.state.progress.voters[replicas.voter_set(1, 2).ids[1]].end_offset = Offset(replicas.END.offset - 1)
    poll(one, replicas.NOW)
    assert isinstance(one.state, Leader)
    one.state.progress.voters[replicas.voter_set(1, 2).ids[1]].end_offset = replicas.END.offset
    assert successor(replicas.replica(one.state), one.state) is None, "any other leader stays"
    poll(one, replicas.NOW)
    assert isinstance(one.state, Resigned)
    assert one.state.successors[0].id == 2


def test_it_begins_with_its_leader_change_only_and_accepts_nothing() -> None:
    one = made(replicas.candidate(count=replicas.tally(granted=(1, 2))))
    one.leaderless_timeouts, one.has_denied_shorter_log = 2, True
    to_leader(one, replicas.NOW)
    assert one.leaderless_timeouts is None
    assert not one.has_denied_shorter_log
    replicas.done(one)
    on_proposed(one, Proposed(handle=4, epoch=Epoch(one.epoch), count=1, size_bytes=10), replicas.NOW)
    assert "does not lead" in str(replicas.only(replicas.done(one), RejectProposal).error)
    on_upgrade_requested(one, UpgradeRequested(handle=5, epoch=Epoch(one.epoch), version=1), replicas.NOW)
    assert replicas.kinds(replicas.done(one)) == ["CompletePendingRequest"]
    assert one.kraft_version == 0


def test_its_successor_upgrades_the_level() -> None:
    one = leader_that_knows()
    one.config = NEVER
    error, has_written = upgraded(one)
    assert "never leads for long" in str(error)
    assert not has_written


def test_the_end_of_the_epoch_makes_it_grant_and_wait_once() -> None:
    one = made(replicas.follower(has_fetched=True))
    ended = messages.EndQuorumEpochRequest(
        epoch=Epoch(5), leader_id=NodeId(2), successors=(replicas.key(1), replicas.key(3))
    )
    note_denial_of_leader(one, 2, replicas.NOW)
    for _ in range(TIMEOUTS_MAX + 1):
        replicas.ask(one, ended)
        poll(one, replicas.NOW)
    assert isinstance(one.state, Follower)
    assert one.state.fetch_deadline_ms > replicas.NOW.mono_ms
    assert (one.leaderless_timeouts, one.state.has_fetched) == (0, False)
    note_response(one, replicas.NOW, has_progress=True)
    assert one.leaderless_timeouts == 0, "a late answer is no sign of life"
