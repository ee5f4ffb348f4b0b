"""A prospective replica counts each voter's latest answer, and always its own vote.

Source: KIP-996; Kafka ``ProspectiveState``.
"""

from __future__ import annotations

import pytest

from pykraft.core.events import ResponseReceived
from pykraft.core.on.timer import poll
from pykraft.core.state import Prospective
from tests.core.replicas import NOW, answer, done, prospective, replica, sent, tally, voter_set
from tests.core.said import voted

FIVE = (1, 2, 3, 4, 5)


@pytest.mark.conformance(89)
@pytest.mark.parametrize("granted", [True, False])
def test_the_latest_word_of_a_voter_counts(granted: bool) -> None:
    made = replica(prospective(count=tally(voters=FIVE)), voters=voter_set(*FIVE))
    answer(made, voted(granted=granted))
    answer(made, voted(granted=not granted))
    assert isinstance(made.state, Prospective)
    expected = tally(voters=FIVE, rejected=(2,)) if granted else tally(voters=FIVE, granted=(1, 2))
    assert made.state.tally == expected


@pytest.mark.conformance(89)
def test_it_never_asks_itself_so_nobody_can_refuse_in_its_name() -> None:
    made = replica(prospective())
    poll(made, NOW)
    assert sent(done(made)) == [(2, "VoteRequest"), (3, "VoteRequest")]
    forged = ResponseReceived(peer_id=1, correlation_id=0, message=voted(granted=False))
    assert not made.connections.received(forged.peer_id, forged.correlation_id)
    assert isinstance(made.state, Prospective)
    assert made.state.tally == tally()
