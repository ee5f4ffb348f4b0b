"""A candidate has voted for itself and knows no leader.

Source: KIP-595 §Vote; Kafka ``CandidateState`` (4.1 and later: no exponential back-off).
"""

from __future__ import annotations

import pytest

from pykraft.core import enter_state
from pykraft.core.state import Candidate
from pykraft.types import Listeners, NodeId
from tests.core.replicas import NOW, answer, candidate, key, prospective, replica, sent, tally, voter_set
from tests.core.said import voted

FIVE = (1, 2, 3, 4, 5)


@pytest.mark.conformance(88)
def test_its_own_vote_cannot_be_taken_back() -> None:
    made = replica(candidate())
    before = made.state
    answer(made, voted(granted=False), peer_id=1)
    assert made.state is before
    assert sent(answer(made, voted(granted=False), peer_id=3)) == []
    assert isinstance(made.state, Candidate)
    assert made.state.tally == tally(rejected=(3,))
    assert made.state.voted == key(1)


@pytest.mark.conformance(88)
@pytest.mark.parametrize("granted", [True, False])
def test_a_vote_once_counted_stays_whatever_is_said_later(granted: bool) -> None:
    made = replica(candidate(count=tally(voters=FIVE)), voters=voter_set(*FIVE))
    answer(made, voted(granted=granted))
    counted = made.state
    answer(made, voted(granted=not granted))
    assert made.state is counted
    assert isinstance(counted, Candidate)
    assert (2 in counted.tally.granted, 2 in counted.tally.rejected) == (granted, not granted)


@pytest.mark.conformance(88)
def test_only_a_voter_can_be_one() -> None:
    made = replica(prospective(), voters=voter_set(2, 3))
    with pytest.raises(AssertionError, match="an observer does not campaign"):
        enter_state.to_candidate(made, NOW)


@pytest.mark.conformance(88)
def test_it_knows_no_leader_and_no_endpoints() -> None:
    made = replica(candidate())
    assert (made.leader_id, made.leader_listeners, made.has_reachable_leader) == (None, Listeners(), False)
    assert made.reply_listeners("CONTROLLER") == Listeners()


@pytest.mark.conformance(88)
def test_who_is_no_voter_does_not_count() -> None:
    made = replica(candidate())
    before = made.state
    answer(made, voted(), peer_id=NodeId(9))
    assert made.state is before
