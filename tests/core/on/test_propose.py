"""Proposals, resignation and shutdown: what the application may ask for."""

import pytest

from pykraft.core.effects import AcceptProposal, AppendBatches, Effect, RejectProposal, Report
from pykraft.core.events import AppendsScheduled, Proposed, ResignRequested, ShutdownRequested
from pykraft.core.leader.appending import drain_if_due
from pykraft.core.on.propose import on_appends_scheduled, on_proposed, on_resign_requested, on_shutdown_requested
from pykraft.core.on.timer import next_deadline_ms
from pykraft.core.replica import Replica
from pykraft.core.state import Leader, State
from pykraft.errors import BufferFullError, NotLeaderError, RecordBatchTooLargeError, UsageError
from pykraft.types import Epoch, Instant, Io
from tests.core.replicas import CONFIG, NOW, done, follower, kinds, later, leader, only, replica, resigned


def propose(
    made: Replica,
    *,
    handle: int = 1,
    epoch: int = 5,
    count: int = 1,
    size_bytes: int = 10,
    is_prepared: bool = False,
    now: Instant = NOW,
) -> list[Effect]:
    proposed = Proposed(handle=handle, epoch=Epoch(epoch), count=count, size_bytes=size_bytes, is_prepared=is_prepared)
    on_proposed(made, proposed, now)
    return ended(made, now)


def ended(made: Replica, now: Instant = NOW) -> list[Effect]:
    """The end of a step, which appends what is due."""
    if isinstance(made.state, Leader):
        drain_if_due(made, made.state, now)
    return done(made)


@pytest.mark.conformance(101, "H47")
def test_records_get_their_offsets_at_once_and_are_appended_when_they_need_not_linger() -> None:
    made = replica(leader())
    found = propose(made, handle=4, count=3)
    assert only(found, AcceptProposal) == AcceptProposal(
        handle=4, base_offset=made.log.flushed_end_offset, epoch=Epoch(5)
    )
    (batch,) = only(found, AppendBatches).batches
    assert (batch.base_offset, batch.end_offset, batch.handles) == (10, 13, (4,))
    assert made.log.end_offset == 13


@pytest.mark.conformance(9)
@pytest.mark.parametrize(
    ("state", "epoch", "kind"),
    [
        (leader(), 4, NotLeaderError),
        (leader(), 6, UsageError),
        (follower(), 5, NotLeaderError),
        (resigned(), 5, NotLeaderError),
    ],
)
def test_only_the_leader_of_the_epoch_appends(state: State, epoch: int, kind: type[Exception]) -> None:
    made = replica(state)
    refused = only(propose(made, epoch=epoch), RejectProposal)
    assert type(refused.error) is kind
    assert refused.handle == 1
    if isinstance(refused.error, NotLeaderError):
        assert refused.error.leader_id == (2 if made.has_remote_leader else None)


@pytest.mark.conformance(9, 101, 110)
@pytest.mark.parametrize(
    ("count", "size_bytes", "kind"), [(0, 1, UsageError), (-1, 1, UsageError), (1, 1_001, RecordBatchTooLargeError)]
)
def test_what_cannot_be_a_batch_is_refused(count: int, size_bytes: int, kind: type[Exception]) -> None:
    refused = only(propose(replica(leader()), count=count, size_bytes=size_bytes), RejectProposal)
    assert type(refused.error) is kind


@pytest.mark.conformance(112)
def test_what_is_prepared_waits_for_its_schedule_however_long_it_lingers() -> None:
    made = replica(leader())
    assert kinds(propose(made, handle=1, is_prepared=True)) == ["AcceptProposal"]
    on_appends_scheduled(made, AppendsScheduled(), NOW)
    (batch,) = only(ended(made), AppendBatches).batches
    assert batch.handles == (1,)


def test_who_does_not_lead_has_prepared_nothing() -> None:
    made = replica(follower())
    on_appends_scheduled(made, AppendsScheduled(), NOW)
    assert done(made) == []


def test_a_leader_that_is_to_resign_takes_nothing_more() -> None:
    state = leader()
    state.resign_requested = True
    assert isinstance(only(propose(replica(state)), RejectProposal).error, NotLeaderError)


@pytest.mark.conformance(9, 112)
def test_storage_that_is_behind_fills_the_buffer_and_then_the_application_hears_of_it() -> None:
    made = replica(leader())
    for io in range(1, CONFIG.accumulated_batches_max + 1):
        made.log.submit(Io(io))
    found = [propose(made, handle=handle, size_bytes=1_000) for handle in range(1, 5)]
    assert [kinds(effects) for effects in found] == [["AcceptProposal"]] * 2 + [["RejectProposal"]] * 2
    assert isinstance(only(found[3], RejectProposal).error, BufferFullError)
    assert made.role == "leader"


@pytest.mark.conformance(112)
def test_an_append_that_is_not_prepared_makes_room_where_prepared_ones_fill_the_buffer() -> None:
    made = replica(leader())
    found = [propose(made, handle=handle, size_bytes=1_000, is_prepared=True) for handle in range(1, 4)]
    assert [kinds(effects) for effects in found] == [["AcceptProposal"]] * 2 + [["RejectProposal"]]
    refused = only(found[2], RejectProposal).error
    assert isinstance(refused, BufferFullError)
    assert "schedule" in str(refused)
    effects = propose(made, handle=4, size_bytes=1_000)
    assert only(effects, AcceptProposal).handle == 4
    effects += ended(made)
    batches = [batch for effect in effects if isinstance(effect, AppendBatches) for batch in effect.batches]
    assert [batch.handles for batch in batches] == [(1,), (2,), (4,)]


@pytest.mark.conformance(112)
def test_an_append_that_storage_has_no_room_for_still_schedules_what_was_prepared() -> None:
    made = replica(leader())
    for io in range(1, CONFIG.accumulated_batches_max + 1):
        made.log.submit(Io(io))
    for handle in (1, 2):
        propose(made, handle=handle, size_bytes=1_000, is_prepared=True)
    refused = only(propose(made, handle=3, size_bytes=1_000), RejectProposal).error
    assert isinstance(refused, BufferFullError)
    assert "storage" in str(refused)
    state = made.state
    assert isinstance(state, Leader)
    assert [batch.handles for batch in state.accumulation.drain()] == [(1,), (2,)]


@pytest.mark.conformance(12)
@pytest.mark.parametrize(("state", "epoch", "asked"), [(leader(), 5, True), (leader(), 4, False), (leader(), 6, False)])
def test_a_leader_resigns_from_the_epoch_that_was_meant(state: Leader, epoch: int, asked: bool) -> None:
    on_resign_requested(replica(state), ResignRequested(epoch=Epoch(epoch)), NOW)
    assert state.resign_requested is asked


@pytest.mark.conformance(12)
def test_who_does_not_lead_has_nothing_to_resign_from() -> None:
    made = replica(follower())
    before = made.state
    on_resign_requested(made, ResignRequested(epoch=Epoch(5)), NOW)
    assert made.state is before


def test_a_shutdown_is_begun_once() -> None:
    made = replica(follower())
    on_shutdown_requested(made, ShutdownRequested(timeout_ms=50), NOW)
    assert "follower of epoch 5" in only(done(made), Report).text
    on_shutdown_requested(made, ShutdownRequested(timeout_ms=50), later(30))
    assert made.shutdown_deadline_ms == NOW.mono_ms + 50
    assert done(made) == []


@pytest.mark.conformance(24)
def test_what_has_lingered_is_appended_with_an_append_that_comes_then() -> None:
    state = leader(linger_ms=20)
    made = replica(state)
    assert kinds(propose(made, handle=1)) == ["AcceptProposal"]
    assert next_deadline_ms(made) == NOW.mono_ms + 20
    assert kinds(propose(made, handle=2, now=later(19))) == ["AcceptProposal"]
    assert kinds(propose(made, handle=3, now=later(20))) == ["AcceptProposal", "AppendBatches"]
