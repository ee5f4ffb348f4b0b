"""A follower whose leader refuses connections: one early campaign, which binds nobody and delays nothing."""

from dataclasses import replace

import pytest

from pykraft.core import messages
from pykraft.core.effects import Effect, Report, Send
from pykraft.core.election import EARLY_BACKOFFS
from pykraft.core.events import SendFailed
from pykraft.core.on.timer import next_deadline_ms, poll
from pykraft.core.raft import on_send_failed
from pykraft.core.replica import Replica
from pykraft.core.state import Candidate, Follower, Prospective, State, Unattached
from pykraft.errors import ErrorCode
from pykraft.types import Instant
from tests.core import replicas
from tests.core.on.test_pre_vote import asked
from tests.core.said import voted

BACKOFF_MS = 20
CAMPAIGN_MS = EARLY_BACKOFFS * BACKOFF_MS


def refuse(made: Replica, peer_id: int = 2, *, is_refused: bool = True) -> list[Effect]:
    """The connection to this peer fails."""
    error = ErrorCode.BROKER_NOT_AVAILABLE
    on_send_failed(
        made, SendFailed(peer_id=peer_id, correlation_id=0, error=error, is_refused=is_refused), replicas.NOW
    )
    return replicas.done(made)


def early_ms(made: Replica) -> int | None:
    return made.state.early_deadline_ms if isinstance(made.state, Follower) else None


def at(ms: int) -> Instant:
    return Instant(mono_ms=ms, wall_ms=0)


def refused() -> Replica:
    """A follower of node 2 that has fetched from it, and was refused since."""
    made = replicas.replica(replicas.follower(has_fetched=True))
    refuse(made)
    return made


def campaigning() -> Replica:
    """The same after the pause; it asks nodes 2 and 3."""
    made = refused()
    deadline_ms = early_ms(made)
    assert deadline_ms is not None
    poll(made, at(deadline_ms))
    assert isinstance(made.state, Prospective)
    return made


def test_a_refusal_starts_a_short_pause_and_ends_the_denial_of_pre_votes() -> None:
    made = replicas.replica(replicas.follower(has_fetched=True))
    (report,) = refuse(made)
    assert isinstance(report, Report)
    assert report.text == "node 2, the leader of epoch 5, refuses connections: no process listens there"
    assert isinstance(made.state, Follower)
    assert (made.state.has_fetched, made.state.fetch_deadline_ms) == (False, replicas.LATER_MS)
    pause_ms = (early_ms(made) or 0) - replicas.NOW.mono_ms
    assert BACKOFF_MS <= pause_ms < BACKOFF_MS + CAMPAIGN_MS
    assert next_deadline_ms(made) == replicas.NOW.mono_ms + pause_ms


def test_one_refusal_counts_until_the_leader_answers() -> None:
    made = refused()
    before = made.state
    assert refuse(made) == []
    assert made.state == before
    assert isinstance(before, Follower)
    made.state = before.heard(replicas.NOW, 2_000)
    assert early_ms(made) is None
    assert refuse(made) != []
    assert early_ms(made) is not None


@pytest.mark.parametrize(
    "state",
    [
        replicas.unattached(),
        replicas.prospective(leader_id=2),
        replicas.candidate(),
        replicas.leader(),
        replicas.resigned(),
        replicas.follower(),
    ],
)
def test_a_refusal_means_nothing_to_who_does_not_hear_a_leader(state: State) -> None:
    made = replicas.replica(state)
    assert refuse(made) == []
    assert made.state == state


def test_neither_a_broken_connection_nor_another_peer_counts() -> None:
    made = replicas.replica(replicas.follower(has_fetched=True))
    before = made.state
    refuse(made, is_refused=False)
    refuse(made, peer_id=3)
    assert made.state is before


def test_it_asks_for_pre_votes_and_keeps_its_fetch_deadline() -> None:
    made = campaigning()
    state = made.state
    assert isinstance(state, Prospective)
    assert (state.leader_id, state.leader_has_left, state.fetch_deadline_ms) == (2, True, replicas.LATER_MS)
    asks = [(each.peer.id, each.message) for each in replicas.done(made) if isinstance(each, Send)]
    assert [peer_id for peer_id, _ in asks] == [2, 3]
    assert all(isinstance(message, messages.VoteRequest) and message.pre_vote for _, message in asks)


def test_an_early_denial_is_asked_again_and_a_grant_elects() -> None:
    made = campaigning()
    replicas.answer(made, voted(granted=False, leader_id=2), peer_id=3)
    assert made.connections.is_backing_off(3)
    assert isinstance(made.state, Prospective)
    assert made.state.tally.unanswered == (2, 3)
    replicas.answer(made, voted(leader_id=2), peer_id=3)
    assert isinstance(made.state, Candidate)


def test_it_follows_again_when_its_time_is_over_and_no_refusal_counts() -> None:
    made = campaigning()
    assert isinstance(made.state, Prospective)
    end_ms = made.state.election_deadline_ms
    poll(made, at(end_ms - 1))
    assert isinstance(made.state, Prospective)
    poll(made, at(end_ms))
    assert isinstance(made.state, Follower)
    assert (made.state.fetch_deadline_ms, made.state.has_fetched, early_ms(made)) == (replicas.LATER_MS, False, None)
    replicas.done(made)
    assert refuse(made) == []


def test_a_denial_of_the_leader_itself_ends_it() -> None:
    made = campaigning()
    replicas.answer(made, voted(granted=False, leader_id=2), peer_id=2)
    assert isinstance(made.state, Follower)
    assert made.state.fetch_deadline_ms == replicas.LATER_MS
    granted = campaigning()
    replicas.answer(granted, voted(leader_id=2), peer_id=2)
    assert isinstance(granted.state, Candidate), "it has resigned"


def test_a_regular_campaign_counts_the_denial_of_the_leader() -> None:
    made = replicas.replica(replicas.prospective(leader_id=2))
    replicas.answer(made, voted(granted=False, leader_id=2), peer_id=2)
    assert isinstance(made.state, Prospective)
    assert made.state.tally.rejected == {2}


def test_the_fetch_timeout_comes_first_if_it_is_earlier() -> None:
    made = refused()
    assert isinstance(made.state, Follower)
    made.state = replace(made.state, fetch_deadline_ms=replicas.NOW.mono_ms + 1)
    poll(made, at(replicas.NOW.mono_ms + 1))
    assert isinstance(made.state, Prospective)
    assert (made.state.leader_has_left, made.state.fetch_deadline_ms) == (False, None)


def test_who_grants_lets_the_other_go_first() -> None:
    made = refused()
    before_ms = early_ms(made) or 0
    _, found = asked(made)
    assert found
    after_ms = early_ms(made) or 0
    assert after_ms - replicas.NOW.mono_ms >= CAMPAIGN_MS + BACKOFF_MS
    assert after_ms > before_ms
    regular = replicas.replica(replicas.follower())
    asked(regular)
    assert early_ms(regular) is None


def test_an_observer_never_campaigns() -> None:
    made = replicas.replica(replicas.follower(has_fetched=True), voters=replicas.voter_set(2, 3))
    refuse(made)
    deadline_ms = early_ms(made) or 0
    assert next_deadline_ms(made) is None
    poll(made, at(deadline_ms))
    assert isinstance(made.state, Follower)


def test_a_higher_epoch_ends_it() -> None:
    made = campaigning()
    ask_epoch = made.epoch + 1
    replicas.answer(made, voted(granted=False, epoch=ask_epoch), peer_id=3)
    assert isinstance(made.state, Unattached)


def test_a_voter_without_pre_votes_ends_it_and_no_election_begins() -> None:
    made = campaigning()
    replicas.answer(made, messages.TopLevelError(error=ErrorCode.UNSUPPORTED_VERSION), peer_id=3)
    assert isinstance(made.state, Follower)
    assert (made.epoch, made.state.fetch_deadline_ms) == (5, replicas.LATER_MS)
