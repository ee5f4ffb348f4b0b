"""A resigned leader tells the other voters, waits for none, and grants no vote in its epoch.

Source: KIP-595 §EndQuorumEpoch; Kafka ``ResignedState``.
"""

from __future__ import annotations

import pytest

from pykraft.core import enter_state
from pykraft.core.effects import Reply
from pykraft.core.messages import VoteResponse
from pykraft.core.on.timer import next_deadline_ms, poll
from pykraft.core.state import Resigned
from pykraft.types import Instant
from tests.core.replicas import LATER_MS, NOW, answer, ask, done, kinds, leader, only, replica, resigned, sent
from tests.core.said import ended, vote


@pytest.mark.conformance(91, "H27")
def test_it_waits_for_everybody_but_itself_and_no_stranger() -> None:
    made = replica(leader())
    enter_state.to_resigned(made, NOW)
    assert isinstance(made.state, Resigned)
    assert made.state.unacknowledged == {2, 3}
    answer(made, ended(), peer_id=9)
    assert made.state.unacknowledged == {2, 3}
    answer(made, ended(), peer_id=2)
    assert made.state.unacknowledged == {3}


@pytest.mark.conformance(91, "H11")
def test_its_time_is_over_whoever_has_answered() -> None:
    made = replica(resigned())
    assert next_deadline_ms(made) == LATER_MS
    poll(made, Instant(mono_ms=LATER_MS - 1, wall_ms=0))
    assert isinstance(made.state, Resigned)
    poll(made, Instant(mono_ms=LATER_MS, wall_ms=0))
    assert (made.role, made.epoch) == ("prospective", 6)


@pytest.mark.conformance(91)
def test_when_all_have_answered_nothing_more_is_said() -> None:
    made = replica(resigned())
    for peer_id in (2, 3):
        answer(made, ended(), peer_id=peer_id)
    poll(made, NOW)
    assert sent(done(made)) == []


@pytest.mark.conformance(62, 91)
@pytest.mark.parametrize(("end", "granted"), [((10, 3), True), ((1, 4), True), ((9, 3), False)])
def test_it_grants_pre_votes_by_the_log_alone_and_no_vote(end: tuple[int, int], granted: bool) -> None:
    made = replica(resigned())
    before = made.state
    for pre_vote in (True, False):
        found = ask(made, vote(epoch=5, end=end, pre_vote=pre_vote))
        message = only(found, Reply).message
        assert isinstance(message, VoteResponse)
        assert message.vote_granted == (granted and pre_vote)
        assert kinds(found) == ["Reply"]
    assert made.state is before
