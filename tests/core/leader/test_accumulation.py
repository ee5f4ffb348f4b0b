"""Proposals gather in batches: dense offsets, whole proposals, bounds, and the linger time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.core.effects import PlannedBatch
from pykraft.core.leader.accumulation import BATCH_HEADER_SIZE_BYTES, Accumulation
from pykraft.types import Epoch, KRaftVersion, KRaftVoters, Offset, VoterSet
from tests.core.replicas import NOW, later


def accumulation(*, size_bytes_max: int = 100, waiting_max: int = 3, linger_ms: int = 20) -> Accumulation:
    return Accumulation(
        epoch=Epoch(5),
        base_offset=Offset(7),
        linger_ms=linger_ms,
        size_bytes_max=BATCH_HEADER_SIZE_BYTES + size_bytes_max,
        waiting_max=waiting_max,
    )


@pytest.mark.conformance(112, "H44")
def test_proposals_share_a_batch_that_is_dated_by_the_first() -> None:
    gathered = accumulation()
    assert gathered.due_ms() is None
    assert gathered.add(handle=1, count=2, size_bytes=50, now=NOW) == 7
    assert gathered.due_ms() == NOW.mono_ms + 20
    assert gathered.add(handle=2, count=1, size_bytes=50, now=later(5)) == 9
    assert gathered.due_ms() == NOW.mono_ms + 20
    (batch,) = gathered.drain()
    assert (batch.base_offset, batch.end_offset, batch.handles) == (7, 10, (1, 2))
    assert (batch.epoch, batch.timestamp_ms, batch.control) == (5, NOW.wall_ms, ())
    assert gathered.drain() == ()
    assert gathered.due_ms() is None


@pytest.mark.conformance(112)
def test_a_full_batch_is_due_at_once() -> None:
    gathered = accumulation()
    gathered.add(handle=1, count=1, size_bytes=60, now=NOW)
    gathered.add(handle=2, count=1, size_bytes=41, now=NOW)
    assert gathered.due_ms() == 0
    assert [batch.handles for batch in gathered.drain()] == [(1,), (2,)]


@pytest.mark.conformance(112)
def test_what_waits_is_bounded_and_what_is_refused_takes_no_offset() -> None:
    gathered = accumulation(waiting_max=1)
    for handle in (1, 2):
        assert gathered.add(handle=handle, count=1, size_bytes=100, now=NOW) is not None or handle == 2
    assert gathered.next_offset == 8
    assert [batch.handles for batch in gathered.drain()] == [(1,)]
    assert gathered.add(handle=3, count=1, size_bytes=100, now=NOW) == 8


@pytest.mark.conformance(112)
def test_the_end_of_a_term_gives_all_handles_back() -> None:
    gathered = accumulation()
    for handle in (1, 2, 3):
        gathered.add(handle=handle, count=1, size_bytes=60, now=NOW)
    assert gathered.close() == (1, 2, 3)


@pytest.mark.conformance(112)
@pytest.mark.parametrize(("count", "size_bytes"), [(0, 1), (1, 101)])
def test_what_cannot_be_a_batch_is_not_offered(count: int, size_bytes: int) -> None:
    gathered = accumulation()
    assert gathered.fits(100)
    assert not gathered.fits(101)
    with pytest.raises(AssertionError):
        gathered.add(handle=1, count=count, size_bytes=size_bytes, now=NOW)


@pytest.mark.conformance(112, "H48")
@given(st.lists(st.one_of(st.none(), st.tuples(st.integers(1, 5), st.integers(0, 100)))))
def test_offsets_are_dense_and_batches_small_enough(steps: list[tuple[int, int] | None]) -> None:
    """None drains; a pair proposes."""
    gathered = accumulation()
    drained: list[PlannedBatch] = []
    sizes: dict[int, int] = {}
    counts: dict[int, int] = {}
    for handle, step in enumerate(steps):
        if step is None:
            drained += gathered.drain()
            continue
        count, size_bytes = step
        if gathered.add(handle=handle, count=count, size_bytes=size_bytes, now=NOW) is not None:
            sizes[handle], counts[handle] = size_bytes, count
    drained += gathered.drain()
    next_offset = 7
    for batch in drained:
        assert batch.base_offset == next_offset
        next_offset += sum(counts[handle] for handle in batch.handles)
        assert batch.end_offset == next_offset
        assert sum(sizes[handle] for handle in batch.handles) <= 100
    assert [handle for batch in drained for handle in batch.handles] == list(counts)
    assert gathered.next_offset == next_offset


@pytest.mark.conformance(112)
def test_what_is_prepared_stays_until_it_is_scheduled() -> None:
    gathered = accumulation()
    gathered.add(handle=1, count=1, size_bytes=10, now=NOW)
    assert gathered.add(handle=2, count=1, size_bytes=10, now=later(1), is_prepared=True) == 8
    assert gathered.add(handle=3, count=1, size_bytes=95, now=later(2), is_prepared=True) == 9
    assert gathered.due_ms() == 0
    assert [batch.handles for batch in gathered.drain()] == [(1,)]
    assert gathered.due_ms() is None
    assert gathered.drain() == ()
    gathered.schedule()
    assert gathered.due_ms() == 0
    assert [(batch.handles, batch.base_offset) for batch in gathered.drain()] == [((2,), 8), ((3,), 9)]


@pytest.mark.conformance(112)
def test_what_was_prepared_has_lingered_since_it_was_added() -> None:
    gathered = accumulation()
    gathered.add(handle=1, count=1, size_bytes=10, now=NOW, is_prepared=True)
    assert gathered.due_ms() is None
    gathered.schedule()
    assert gathered.due_ms() == NOW.mono_ms + 20


@pytest.mark.conformance(112)
def test_a_proposal_that_is_not_prepared_schedules_those_before_it() -> None:
    gathered = accumulation()
    gathered.add(handle=1, count=1, size_bytes=10, now=NOW, is_prepared=True)
    gathered.add(handle=2, count=1, size_bytes=10, now=NOW)
    assert gathered.due_ms() == NOW.mono_ms + 20
    assert [batch.handles for batch in gathered.drain()] == [(1, 2)]


@pytest.mark.conformance(112)
def test_what_is_prepared_is_bounded_too_and_what_is_refused_holds_nothing() -> None:
    gathered = accumulation(waiting_max=1)
    gathered.add(handle=1, count=1, size_bytes=60, now=NOW)
    assert gathered.add(handle=2, count=1, size_bytes=60, now=NOW, is_prepared=True) is None
    assert [batch.handles for batch in gathered.drain()] == [(1,)]


@pytest.mark.conformance(112)
def test_the_end_of_a_term_gives_back_what_was_only_prepared() -> None:
    gathered = accumulation()
    gathered.add(handle=1, count=1, size_bytes=60, now=NOW)
    gathered.add(handle=2, count=1, size_bytes=60, now=NOW, is_prepared=True)
    assert gathered.close() == (1, 2)


@pytest.mark.conformance(112)
def test_a_control_batch_comes_after_all_that_was_taken_and_lets_it_go() -> None:
    gathered = accumulation()
    assert gathered.add(handle=1, count=2, size_bytes=50, now=NOW, is_prepared=True) == 7
    records = (KRaftVersion(1), KRaftVoters(VoterSet()))
    assert gathered.add_control(records, later(3)) == 9
    assert gathered.add(handle=2, count=1, size_bytes=50, now=later(4)) == 11
    first, control, last = gathered.drain()
    assert (first.base_offset, first.end_offset, first.handles) == (7, 9, (1,))
    assert (control.base_offset, control.end_offset, control.control) == (9, 11, records)
    assert (control.epoch, control.timestamp_ms, control.handles) == (5, NOW.wall_ms + 3, ())
    assert (last.base_offset, last.handles) == (11, (2,))
    assert accumulation().add_control(records, NOW) == 7


def filled(*, waiting_max: int = 2) -> Accumulation:
    """Batches of up to 400 bytes, filled up to 100."""
    header = BATCH_HEADER_SIZE_BYTES
    return Accumulation(
        epoch=Epoch(5),
        base_offset=Offset(7),
        linger_ms=20,
        size_bytes_max=header + 400,
        waiting_max=waiting_max,
        fill_size_bytes=header + 100,
    )


@pytest.mark.conformance(112)
def test_a_batch_is_filled_up_to_what_a_fetch_brings_and_only_a_single_proposal_is_larger() -> None:
    gathered = filled()
    for handle, size_bytes in enumerate((60, 40, 1, 300, 50), start=1):
        assert gathered.add(handle=handle, count=1, size_bytes=size_bytes, now=NOW) is not None
    assert [batch.handles for batch in gathered.drain()] == [(1, 2), (3,), (4,), (5,)]


def test_many_small_batches_may_wait_but_no_more_bytes_than_of_large_ones() -> None:
    gathered = filled(waiting_max=2)
    sizes = [100] * 20
    taken = [gathered.add(handle=at, count=1, size_bytes=size, now=NOW) is not None for at, size in enumerate(sizes)]
    assert taken == [True] * 4 + [False] * 16
    gathered.drain()
    large = [gathered.add(handle=at, count=1, size_bytes=400, now=NOW) is not None for at in range(5)]
    assert large == [True, True, False, False, False]
    gathered.drain()
    assert gathered.is_empty
    assert gathered.add(handle=1, count=1, size_bytes=400, now=NOW) is not None


def test_a_backlog_is_drained_one_batch_at_a_time_and_flushed_without_lingering() -> None:
    gathered = filled()
    gathered.add(handle=1, count=1, size_bytes=100, now=NOW)
    gathered.add(handle=2, count=1, size_bytes=100, now=NOW)
    gathered.flush()
    gathered.flush()
    assert (gathered.waiting_count, gathered.due_ms()) == (2, 0)
    drained = [gathered.drain_one() for _ in range(3)]
    assert [batch.handles if batch else None for batch in drained] == [(1,), (2,), None]


def test_a_whole_batch_shares_its_place_with_nothing_and_does_not_linger() -> None:
    found = accumulation()
    found.add(handle=1, count=2, size_bytes=10, now=NOW)
    found.add(handle=2, count=3, size_bytes=10, now=NOW, is_batch=True)
    assert found.due_ms() == 0
    found.add(handle=3, count=1, size_bytes=10, now=NOW)
    assert [(each.handles, each.end_offset - each.base_offset) for each in found.drain()] == [
        ((1,), 2),
        ((2,), 3),
        ((3,), 1),
    ]
