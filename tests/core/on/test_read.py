"""Read index: a majority confirms the leader after the read arrived, or the read gets an error.

Source: Raft dissertation §6.4; spec of BeginQuorumEpoch: KIP-595.
"""

from typing import Any

import pytest

from pykraft.core.effects import CompleteRead, Effect, Send
from pykraft.core.events import ReadRequested, ResponseReceived, SendFailed
from pykraft.core.leader import pending
from pykraft.core.messages import BeginQuorumEpochRequest, Response
from pykraft.core.on import read
from pykraft.core.on.read import on_read_requested, serve_reads
from pykraft.core.raft import on_response, on_send_failed
from pykraft.core.replica import Replica
from pykraft.core.state import Leader
from pykraft.errors import BufferFullError, ErrorCode, NotLeaderError
from pykraft.types import Instant, NodeId, Offset
from tests.core.replicas import NOW, STATES, done, follower, key, later, leader, replica, sent, voter_set
from tests.core.said import begun


def leading(*voters: int, high_watermark: int | None = 12) -> Replica:
    known = voter_set(*(voters or (1, 2, 3)))
    return replica(leader(voters=known, high_watermark=high_watermark), voters=known)


def end(made: Replica, now: Instant = NOW) -> list[Effect]:
    """End the step of a leader, as the timer does."""
    made.connections.expire(now.mono_ms)
    if isinstance(made.state, Leader):
        serve_reads(made, made.state, now)
    return done(made)


def ask(made: Replica, *handles: int, now: Instant = NOW) -> list[Effect]:
    for handle in handles:
        on_read_requested(made, ReadRequested(handle=handle), now)
    return end(made, now)


def requests(found: list[Effect]) -> dict[int, int]:
    """The correlation id of the request to each voter."""
    made = {one.peer.id: one.correlation_id for one in found if isinstance(one, Send)}
    for one in found:
        if isinstance(one, Send):
            assert isinstance(one.message, BeginQuorumEpochRequest)
            assert (one.message.epoch, one.message.leader_id, one.message.voter) == (5, 1, key(one.peer.id))
    return made


def answer(
    made: Replica, voter: int, correlation_id: int, message: Response | None = None, now: Instant = NOW
) -> list[Effect]:
    assert made.connections.received(voter, correlation_id)
    on_response(made, ResponseReceived(peer_id=voter, correlation_id=correlation_id, message=message or begun()), now)
    return end(made, now)


def outcomes(found: list[Effect]) -> list[Any]:
    """Handle and offset of each read that may begin; of others the type of the error."""
    reads = [one for one in found if isinstance(one, CompleteRead)]
    return [(one.handle, one.outcome if isinstance(one.outcome, int) else type(one.outcome)) for one in reads]


def test_a_majority_confirms_the_leader_after_the_read_arrived() -> None:
    made = leading()
    asked = requests(found := ask(made, 7, 8))
    assert (outcomes(found), [*asked]) == ([], [2, 3])
    assert outcomes(answer(made, 2, asked[2])) == [(7, 12), (8, 12)]
    assert answer(made, 3, asked[3]) == []


def test_two_of_five_others_are_needed() -> None:
    made = leading(1, 2, 3, 4, 5)
    asked = requests(ask(made, 7))
    assert outcomes(answer(made, 5, asked[5])) == []
    assert outcomes(answer(made, 3, asked[3])) == [(7, 12)]


def test_a_read_during_a_round_waits_for_the_next() -> None:
    made = leading()
    first = requests(ask(made, 7))
    assert ask(made, 8) == []
    second = answer(made, 2, first[2])
    assert outcomes(second) == [(7, 12)]
    asked = requests(second)
    assert [*asked] == [2]  # voter 3 has not answered the first round yet
    third = answer(made, 3, first[3])
    assert outcomes(third) == []  # that answer was to a request of the first round
    assert [*requests(third)] == [3]
    assert outcomes(answer(made, 2, asked[2])) == [(8, 12)]


def test_an_announcement_that_left_before_the_read_confirms_nothing() -> None:
    made = leading()
    before = {voter: made.connections.sent(voter, NOW.mono_ms) for voter in (2, 3)}
    assert ask(made, 7) == []
    found = answer(made, 2, before[2])
    assert outcomes(found) == []
    assert outcomes(answer(made, 2, requests(found)[2])) == [(7, 12)]


@pytest.mark.parametrize(
    "refusal", [begun(error=ErrorCode.INVALID_VOTER_KEY), begun(epoch=4), begun(error=ErrorCode.UNKNOWN_LEADER_EPOCH)]
)
def test_an_answer_with_an_error_confirms_nothing_and_the_voter_is_asked_again(refusal: Response) -> None:
    made = leading()
    asked = requests(ask(made, 7))
    assert answer(made, 2, asked[2], refusal) == []
    again = end(made, later(made.config.retry_backoff_ms + 1))
    assert sent(again) == [(2, "BeginQuorumEpochRequest")]
    assert outcomes(answer(made, 2, requests(again)[2])) == [(7, 12)]


def test_a_request_that_failed_is_sent_again() -> None:
    made = leading()
    asked = requests(ask(made, 7))
    assert made.connections.received(2, asked[2])
    made.connections.back_off(2, NOW.mono_ms)
    on_send_failed(made, SendFailed(peer_id=2, correlation_id=asked[2], error=ErrorCode.NETWORK_EXCEPTION), NOW)
    assert end(made) == []
    assert sent(end(made, later(made.config.retry_backoff_ms + 1))) == [(2, "BeginQuorumEpochRequest")]


def test_the_high_watermark_must_be_known() -> None:
    made = leading(high_watermark=None)
    assert ask(made, 7) == []
    assert isinstance(made.state, Leader)
    made.state.high_watermark = Offset(12)
    assert [*requests(end(made))] == [2, 3]


def test_the_only_voter_needs_nobody() -> None:
    made = leading(1)
    assert outcomes(ask(made, 7, 8)) == [(7, 12), (8, 12)]
    assert made.state.reads == pending.Reads()  # type: ignore[union-attr]


def test_a_leader_that_was_removed_does_not_count_itself() -> None:
    made = leading(2, 3)
    asked = requests(ask(made, 7))
    assert outcomes(answer(made, 2, asked[2])) == []
    assert outcomes(answer(made, 3, asked[3])) == [(7, 12)]


def test_a_later_epoch_ends_all_reads() -> None:
    made = leading()
    asked = requests(ask(made, 7))
    ask(made, 8)
    found = answer(made, 2, asked[2], begun(epoch=6, leader_id=3))
    assert outcomes(found) == [(7, NotLeaderError), (8, NotLeaderError)]


@pytest.mark.parametrize("name", STATES)
def test_only_a_leader_takes_reads(name: str) -> None:
    made = replica(STATES[name]())
    on_read_requested(made, ReadRequested(handle=7), NOW)
    expected = [] if name == "leader" else [(7, NotLeaderError)]
    assert outcomes(done(made)) == expected


def test_a_follower_names_the_leader() -> None:
    made = replica(follower())
    [found] = ask(made, 7)
    assert isinstance(found, CompleteRead)
    assert isinstance(found.outcome, NotLeaderError)
    assert (found.outcome.leader_id, found.outcome.epoch) == (2, 5)


@pytest.mark.interpreted
def test_the_number_of_reads_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "READS_MAX", 2)
    made = leading()
    assert outcomes(ask(made, 1, 2, 3)) == [(3, BufferFullError)]


def test_a_confirmation_that_nobody_waits_for_changes_nothing() -> None:
    made = leading()
    read.note_confirmation(made, NodeId(2), 9)
    made = replica(follower())
    read.note_confirmation(made, NodeId(2), 9)
    assert done(made) == []
