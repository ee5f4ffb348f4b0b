"""When voters may be changed, and how a change ends; the scenarios ``voter_*`` tell the stories."""

import pytest

from pykraft.core import messages
from pykraft.core.effects import AppendBatches, NotifyHighWatermark, Reply
from pykraft.core.enter_state import to_resigned
from pykraft.core.leader.appending import advance_high_watermark
from pykraft.core.leader.pending import Removal
from pykraft.core.on.fetch_request import note_sign_of_life
from pykraft.core.on.voters.voter_changes import end_change, is_removed, write_voters
from pykraft.core.replica import Replica
from pykraft.core.state import Leader
from pykraft.core.voter_history import VoterHistory
from pykraft.errors import ErrorCode
from pykraft.types import Io, KRaftVersion, KRaftVoters, MembershipRecord, NodeId, Offset, VoterSet
from tests.core.replicas import EPOCH, NOW, ask, done, key, later, leader, only, replica, voter_set
from tests.core.said import add_voter, update_voter

VOTERS = voter_set(1, 2, 3)


def dynamic(*, high_watermark: int | None = 10, voters_offset: int = 5, voters: VoterSet = VOTERS) -> Replica:
    """A leader of voters that stand in its log."""
    made = replica(leader(high_watermark=high_watermark, voters=voters))
    records: list[tuple[Offset, MembershipRecord]] = [
        (Offset(4), KRaftVersion(1)),
        (Offset(voters_offset), KRaftVoters(voters)),
    ]
    made.voter_history = VoterHistory(VoterSet(), records)
    return made


def leading(made: Replica) -> Leader:
    assert isinstance(made.state, Leader)
    return made.state


def error_of(made: Replica, request: messages.Request) -> int:
    message = only(ask(made, request), Reply).message
    assert isinstance(message, messages.ChangeVoterResponse | messages.UpdateVoterResponse)
    return message.error


REMOVE = messages.RemoveVoterRequest(voter=key(3))


@pytest.mark.conformance(131, 133, 134)
@pytest.mark.parametrize("request_", [add_voter(), REMOVE, update_voter()])
@pytest.mark.parametrize("made", [lambda: dynamic(high_watermark=None), lambda: dynamic(high_watermark=5)])
def test_nothing_is_changed_while_something_is_in_doubt(made: object, request_: messages.Request) -> None:
    assert callable(made)
    assert error_of(made(), request_) == ErrorCode.REQUEST_TIMED_OUT


@pytest.mark.conformance(131, 133, 134)
@pytest.mark.parametrize("request_", [add_voter(), REMOVE, update_voter()])
def test_one_change_at_a_time(request_: messages.Request) -> None:
    made = dynamic()
    leading(made).change = Removal(request_id=3, deadline_ms=later(9).mono_ms, offset=Offset(10))
    assert error_of(made, request_) == ErrorCode.REQUEST_TIMED_OUT


@pytest.mark.conformance(131, 133)
def test_a_change_that_is_committed_or_out_of_time_is_answered_once() -> None:
    made = dynamic()
    state = leading(made)
    end_change(made, state, NOW)
    state.change = Removal(request_id=3, deadline_ms=later(9).mono_ms, offset=Offset(10))
    end_change(made, state, later(8))
    assert state.change is not None
    end_change(made, state, later(9))
    message = only(done(made), Reply).message
    assert isinstance(message, messages.ChangeVoterResponse)
    assert message.error == ErrorCode.REQUEST_TIMED_OUT
    assert leading(made).change is None
    state.change = Removal(request_id=3, deadline_ms=later(9).mono_ms, offset=Offset(9), is_answered=True)
    end_change(made, state, NOW)
    assert done(made) == []
    assert leading(made).change is None


@pytest.mark.conformance(131, 133)
def test_who_leads_no_more_has_no_answer() -> None:
    made = dynamic()
    leading(made).change = Removal(request_id=3, deadline_ms=later(9).mono_ms, offset=Offset(10))
    to_resigned(made, NOW)
    message = only(done(made), Reply).message
    assert isinstance(message, messages.ChangeVoterResponse)
    assert message.error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    answered = dynamic()
    leading(answered).change = Removal(request_id=3, deadline_ms=NOW.mono_ms, offset=Offset(10), is_answered=True)
    to_resigned(answered, NOW)
    assert not [effect for effect in done(answered) if isinstance(effect, Reply)]


@pytest.mark.conformance(133)
def test_a_leader_is_removed_when_the_set_without_it_is_committed() -> None:
    assert not is_removed(dynamic(), leading(dynamic()))
    without = voter_set(2, 3)
    for high_watermark, expected in ((None, False), (5, False), (6, True)):
        made = dynamic(voters=without, high_watermark=high_watermark)
        assert is_removed(made, leading(made)) == expected
    static = replica(leader(high_watermark=10), voters=without)
    assert not is_removed(static, leading(static))


def test_what_was_proposed_before_comes_first() -> None:
    made = dynamic()
    leading(made).accumulation.add(handle=1, count=2, size_bytes=10, now=NOW, is_prepared=True)
    (found,) = [effect for effect in ask(made, REMOVE) if isinstance(effect, AppendBatches)]
    assert [(batch.base_offset, batch.end_offset, bool(batch.control)) for batch in found.batches] == [
        (10, 12, False),
        (12, 13, True),
    ]
    assert made.voter_history.voters_offset == 12


@pytest.mark.conformance(93, 130, 133)
@pytest.mark.parametrize(
    ("before", "ends", "after", "expected"),
    [
        pytest.param((1, 2, 3, 4), {2: 13, 3: 11, 4: 11}, (1, 2, 3), (11, 13), id="one less has to have it"),
        pytest.param((1, 2, 3), {2: 12}, (1, 2, 3, 4), (12, 12), id="one more has not got it yet"),
        pytest.param((1, 2, 3), {2: 12, 3: 11}, (2, 3), (12, 12), id="the leader counts no more"),
        pytest.param((1,), {}, (1, 2), (13, 13), id="an only voter gets company"),
        pytest.param((1, 2), {}, (1,), (None, 13), id="alone again"),
    ],
)
def test_another_set_may_raise_the_high_watermark_and_never_lowers_it(
    before: tuple[int, ...], ends: dict[int, int], after: tuple[int, ...], expected: tuple[int | None, int]
) -> None:
    made = dynamic(high_watermark=None, voters=voter_set(*before))
    state = leading(made)
    made.log.append(base_offset=Offset(10), end_offset=Offset(13), epoch=EPOCH)
    made.log.submit(Io(1))
    made.log.persist(Io(1))
    state.accumulation.next_offset = Offset(13)
    for node_id, end_offset in ends.items():
        state.progress.voters[NodeId(node_id)].end_offset = Offset(end_offset)
    advance_high_watermark(made, state)
    assert state.high_watermark == expected[0]
    done(made)
    assert write_voters(made, state, voter_set(*after), NOW) == 13
    assert state.high_watermark == expected[1]
    told = [effect.high_watermark for effect in done(made) if isinstance(effect, NotifyHighWatermark)]
    assert told == ([] if expected[0] == expected[1] else [expected[1]])


@pytest.mark.conformance(93, 133)
def test_another_set_is_counted_anew_for_the_leaders_stay_in_office() -> None:
    made = dynamic(voters=voter_set(1, 2, 3, 4, 5))
    state = leading(made)
    note_sign_of_life(made, state, key(4), later(70))
    note_sign_of_life(made, state, key(9), later(70))
    assert state.fetched_voters == {4}
    write_voters(made, state, voter_set(2, 3, 4, 5), later(100))
    assert (state.fetched_voters, state.check_quorum_deadline_ms) == ({4}, later(100).mono_ms + 3_000)
    assert state.begin_quorum_deadline_ms == later(100).mono_ms, "who has joined is told who leads"
    for node_id in (5, 3):
        assert state.check_quorum_deadline_ms == later(100).mono_ms + 3_000, "three of four without the leader itself"
        note_sign_of_life(made, state, key(node_id), later(200))
    assert state.check_quorum_deadline_ms == later(200).mono_ms + 3_000


def behind(made: Replica) -> Replica:
    """Storage has not taken two batches yet that were proposed before."""
    for handle in (8, 9):
        leading(made).accumulation.add(handle=handle, count=1, size_bytes=1_000, now=NOW)
    leading(made).accumulation.flush()
    for io in range(1, made.config.accumulated_batches_max + 1):
        made.log.submit(Io(io))
    return made


@pytest.mark.parametrize("request_", [add_voter(), REMOVE, update_voter()])
def test_no_voters_are_written_behind_a_backlog(request_: messages.Request) -> None:
    made = behind(dynamic())
    assert error_of(made, request_) == ErrorCode.REQUEST_TIMED_OUT
    assert leading(made).accumulation.waiting_count == 2
    assert leading(made).change is None
