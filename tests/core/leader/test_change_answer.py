"""Each request behind a voter change is answered once, in its own kind of answer."""

import pytest

from pykraft.core import messages
from pykraft.core.effects import Reply, Report
from pykraft.core.leader.change_answer import answer_change, answer_requester
from pykraft.core.leader.pending import Addition, Removal, Update, VoterChange
from pykraft.errors import ErrorCode
from pykraft.types import Epoch, NodeId, Offset, Voter
from tests.core.replicas import LISTENER, NOW, done, key, leader, listeners, only, replica

VOTER = Voter(key=key(2), listeners=listeners(2))
CHANGES: list[VoterChange] = [
    Addition(request_id=7, voter=VOTER, ack_when_committed=True, deadline_ms=5),
    Removal(request_id=7, deadline_ms=5, offset=Offset(3)),
    Update(request_id=7, listener=LISTENER, voter=VOTER, deadline_ms=5),
]
TOLD = messages.ChangeVoterResponse(error=ErrorCode.REQUEST_TIMED_OUT, error_message="why")
TOLD_VOTER = messages.UpdateVoterResponse(
    error=ErrorCode.REQUEST_TIMED_OUT, epoch=Epoch(5), leader_id=NodeId(1), listeners=listeners(1)
)


@pytest.mark.parametrize(("change", "expected"), list(zip(CHANGES, [TOLD, TOLD, TOLD_VOTER], strict=True)))
def test_the_answer_is_of_the_requests_kind(change: VoterChange, expected: messages.Response) -> None:
    state = leader()
    made = replica(state)
    state.change = change
    answer_change(made, state, ErrorCode.REQUEST_TIMED_OUT, "why")
    found = done(made)
    assert only(found, Reply).message == expected
    assert only(found, Reply).request_id == 7
    assert state.change is None
    # The answer to UpdateRaftVoter has no text.
    reports = [effect.text for effect in found if isinstance(effect, Report)]
    told = "voter 2 reports that it is at n2:9002, which is refused: why"
    assert reports == ([told] if isinstance(change, Update) else [])


def test_whoever_was_answered_hears_nothing_more() -> None:
    state = leader()
    made = replica(state)
    state.change = Removal(request_id=7, deadline_ms=NOW.mono_ms, offset=Offset(3), is_answered=True)
    answer_change(made, state, ErrorCode.NONE, None)
    assert done(made) == []
    assert state.change is None


def test_an_answer_before_the_commit_does_not_end_the_change() -> None:
    state = leader()
    made = replica(state)
    state.change = CHANGES[0]
    answer_requester(made, CHANGES[0], ErrorCode.NONE)
    assert only(done(made), Reply).message == messages.ChangeVoterResponse(error=ErrorCode.NONE)
    assert state.change is CHANGES[0]
