"""The leader's log grows, and the high watermark follows a majority of disks."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.config import RaftConfig
from pykraft.core.effects import AppendBatches, NotifyHighWatermark, PlannedBatch, ReplyFetch
from pykraft.core.leader.appending import advance_high_watermark, append_planned, drain_if_due, flushed, may_drain
from pykraft.core.leader.parked import HIGH_WATERMARK_WAIT_MS, ParkedFetch
from pykraft.core.replica import Replica
from pykraft.core.state import OFTEN_COUNT, Leader
from pykraft.types import EpochStart, Io, Offset
from tests.core.replicas import EPOCH, LISTENER, NOW, done, key, kinds, leader, only, replica, voter_set
from tests.core.said import fetch


def planned(base: int, end: int) -> PlannedBatch:
    return PlannedBatch(base_offset=Offset(base), end_offset=Offset(end), epoch=EPOCH, timestamp_ms=0, handles=(base,))


def leading(*, voters: int = 3, config: RaftConfig | None = None) -> tuple[Replica, Leader]:
    members = voter_set(*range(1, voters + 1))
    state = leader(voters=members)
    return replica(state, voters=members, config=config or RaftConfig(append_linger_ms=0)), state


def heard(state: Leader, node_id: int, offset: int) -> None:
    state.progress.voters[key(node_id).id].end_offset = Offset(offset)


@pytest.mark.conformance(117)
@pytest.mark.parametrize(
    ("flushed_only", "expected"), [(False, ["AppendBatches", "ReplyFetch"]), (True, ["AppendBatches"])]
)
def test_records_are_served_before_or_after_their_flush(flushed_only: bool, expected: list[str]) -> None:
    made, state = leading(config=RaftConfig(leader_send_flushed_only=flushed_only))
    made.parked.park(ParkedFetch(request_id=4, listener=LISTENER, request=fetch(), deadline_ms=0))
    append_planned(made, state, (planned(10, 12), planned(12, 13)))
    found = done(made)
    assert kinds(found) == expected
    io = only(found, AppendBatches).io
    assert (made.log.end_offset, made.log.last_epoch, made.log.unflushed_count) == (13, EPOCH, 1)
    assert made.log.epochs[-1] == EpochStart(epoch=EPOCH, start_offset=Offset(10))
    made.log.persist(io)
    flushed(made, state)
    assert kinds(done(made)) == (["ReplyFetch"] if flushed_only else [])


def test_what_lingers_is_appended_when_due_and_storage_keeps_up() -> None:
    made, state = leading(config=RaftConfig(accumulated_batches_max=1))
    drain_if_due(made, state, NOW)
    assert done(made) == []
    state.accumulation.add(handle=1, count=2, size_bytes=5, now=NOW)
    made.log.submit(Io(1))
    assert not may_drain(made)
    drain_if_due(made, state, NOW)
    assert done(made) == []
    made.log.persist(Io(1))
    drain_if_due(made, state, NOW)
    assert made.log.end_offset == 12


@pytest.mark.conformance(93)
@pytest.mark.parametrize(
    ("own", "others", "expected"),
    [
        (11, {2: 11}, 11),
        (10, {2: 13, 3: 12}, 12),
        (13, {2: 10, 3: 10}, None),
        (13, {}, None),
        (10, {2: 13}, None),
        (13, {2: 9, 3: 12}, 12),
    ],
)
def test_the_high_watermark_is_what_a_majority_of_disks_holds_of_this_epoch(
    own: int, others: dict[int, int], expected: int | None
) -> None:
    made, state = leading()
    made.log.append(base_offset=Offset(10), end_offset=Offset(13), epoch=EPOCH)
    made.log.flushed_end_offset = Offset(own)
    for node_id, offset in others.items():
        heard(state, node_id, offset)
    advance_high_watermark(made, state)
    assert state.high_watermark == expected
    assert [one.high_watermark for one in done(made) if isinstance(one, NotifyHighWatermark)] == (
        [expected] if expected else []
    )


@pytest.mark.conformance(46, 93, 111)
@given(st.lists(st.tuples(st.integers(2, 5), st.integers(0, 20)), max_size=30))
def test_it_never_goes_back_whatever_replicas_report(reports: list[tuple[int, int]]) -> None:
    made, state = leading(voters=5)
    made.log.append(base_offset=Offset(10), end_offset=Offset(20), epoch=EPOCH)
    made.log.flushed_end_offset = Offset(20)
    before = 0
    for node_id, offset in reports:
        heard(state, node_id, offset)
        advance_high_watermark(made, state)
        assert (state.high_watermark or 0) >= before
        before = state.high_watermark or 0
        assert not before or before > state.epoch_start_offset
    told = [one.high_watermark for one in done(made) if isinstance(one, NotifyHighWatermark)]
    assert told == sorted(set(told))


@pytest.mark.conformance(117, 145)
def test_an_advance_answers_all_who_wait() -> None:
    made, state = leading()
    append_planned(made, state, (planned(10, 11),))
    done(made)
    made.log.persist(Io(2))
    heard(state, 2, 11)
    made.parked.park(ParkedFetch(request_id=4, listener=LISTENER, request=fetch(at=(11, 5)), deadline_ms=0))
    flushed(made, state)
    assert kinds(done(made)) == ["NotifyHighWatermark", "ReplyFetch"]


def test_an_advance_that_is_one_of_many_waits_for_records_that_take_it_along() -> None:
    made, state = leading()
    append_planned(made, state, (planned(10, 11),))
    done(made)
    made.log.persist(Io(2))
    heard(state, 2, 11)
    made.now_ms = NOW.mono_ms
    state.advanced_ms.extend([made.now_ms] * OFTEN_COUNT)
    waiting = ParkedFetch(request_id=4, listener=LISTENER, request=fetch(at=(11, 5)), deadline_ms=NOW.mono_ms + 500)
    made.parked.park(waiting)
    flushed(made, state)
    assert kinds(done(made)) == ["NotifyHighWatermark"]
    assert made.parked.next_deadline_ms() == NOW.mono_ms + HIGH_WATERMARK_WAIT_MS
    append_planned(made, state, (planned(11, 12),))
    assert kinds(done(made)) == ["AppendBatches", "ReplyFetch"]


@pytest.mark.parametrize("often", [False, True])
def test_who_wants_committed_records_only_waits_for_the_commit(often: bool) -> None:
    made, state = leading()
    made.now_ms = NOW.mono_ms
    asked = replace(fetch(at=(10, 3)), is_committed_only=True)
    made.parked.park(ParkedFetch(request_id=4, listener=LISTENER, request=asked, deadline_ms=NOW.mono_ms + 500))
    append_planned(made, state, (planned(10, 11),))
    assert kinds(done(made)) == ["AppendBatches"]
    made.log.persist(Io(2))
    heard(state, 2, 11)
    state.advanced_ms.extend([made.now_ms] * OFTEN_COUNT if often else ())
    flushed(made, state)
    told, answer = done(made)
    assert isinstance(told, NotifyHighWatermark)
    assert isinstance(answer, ReplyFetch)
    assert (answer.request_id, answer.end_offset) == (4, 11)


@pytest.mark.parametrize(("fetched_at", "committed"), [(11, None), (12, None), (13, 13), (14, 13), (15, 13), (16, 16)])
def test_fetch_within_a_batch_commits_only_the_batches_before_it(fetched_at: int, committed: int | None) -> None:
    made, state = leading()
    append_planned(made, state, (planned(10, 13), planned(13, 16)))
    made.log.persist(Io(2))
    heard(state, 2, made.log.whole_batches_below(Offset(fetched_at)))
    advance_high_watermark(made, state)
    assert state.high_watermark == committed


def test_an_acknowledgement_of_what_never_was_is_our_bug() -> None:
    made, state = leading()
    for node_id in (2, 3):
        heard(state, node_id, 99)
    with pytest.raises(AssertionError):
        advance_high_watermark(made, state)


def test_a_backlog_is_appended_batch_by_batch_a_step_for_each() -> None:
    made, state = leading()
    for handle in (1, 2):
        state.accumulation.add(handle=handle, count=1, size_bytes=1_000, now=NOW)
    state.accumulation.flush()
    for handle in (1, 2):
        drain_if_due(made, state, NOW)
        (batch,) = only(done(made), AppendBatches).batches
        assert batch.handles == (handle,)
    drain_if_due(made, state, NOW)
    assert done(made) == []
