"""The epoch cache, compared with a list of every record's epoch."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.core.epochs import EpochCache
from pykraft.types import Epoch, EpochStart, Offset, OffsetAndEpoch

RUNS = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4)), max_size=6)
"""How much each epoch is above the one before, and how many records it has."""


def log_of(runs: list[tuple[int, int]]) -> list[int]:
    """The epoch of each record."""
    epochs: list[int] = []
    epoch = 1
    for step, count in runs:
        epoch += step
        epochs += [epoch] * count
    return epochs


def cache_of(records: list[int]) -> EpochCache:
    cache = EpochCache()
    for offset, epoch in enumerate(records):
        cache.assign(Epoch(epoch), Offset(offset))
    return cache


def starts_of(records: list[int]) -> tuple[EpochStart, ...]:
    return tuple(
        EpochStart(epoch=Epoch(epoch), start_offset=Offset(records.index(epoch))) for epoch in sorted(set(records))
    )


@pytest.mark.conformance(103)
@given(RUNS)
def test_entries_are_where_the_epochs_begin(runs: list[tuple[int, int]]) -> None:
    records = log_of(runs)
    cache = cache_of(records)
    assert cache.entries == starts_of(records)
    assert cache.latest == (cache.entries[-1] if records else None)
    assert EpochCache(cache.entries).entries == cache.entries


@pytest.mark.conformance(103, 104)
@given(RUNS, st.integers(0, 20))
def test_truncation_forgets_what_the_log_forgets(runs: list[tuple[int, int]], end: int) -> None:
    records = log_of(runs)
    cache = cache_of(records)
    cache.truncate_to(Offset(end))
    assert cache.entries == starts_of(records[:end])


@pytest.mark.conformance(103, 109)
@given(RUNS, st.integers(0, 20))
def test_an_epoch_ends_where_the_next_known_one_begins(runs: list[tuple[int, int]], asked: int) -> None:
    records = log_of(runs)
    higher = [offset for offset, epoch in enumerate(records) if epoch > asked]
    floor = max((epoch for epoch in records if epoch <= asked), default=asked)
    expected: OffsetAndEpoch | None
    if records and records[-1] == asked:
        expected = OffsetAndEpoch(Offset(len(records)), Epoch(asked))
    else:
        expected = OffsetAndEpoch(Offset(higher[0]), Epoch(floor)) if higher else None
    assert cache_of(records).end_of(Epoch(asked), Offset(len(records))) == expected


@pytest.mark.conformance(103, "H58")
@given(RUNS, st.integers(1, 20), st.integers(0, 20))
def test_an_epoch_that_begins_earlier_than_known_ones_replaces_them(
    runs: list[tuple[int, int]], epoch: int, offset: int
) -> None:
    cache = cache_of(log_of(runs))
    before = cache.entries
    cache.assign(Epoch(epoch), Offset(offset))
    if before and before[-1].epoch == epoch:
        assert cache.entries == before
        return
    kept = tuple(entry for entry in before if entry.epoch < epoch and entry.start_offset < offset)
    assert cache.entries == (*kept, EpochStart(epoch=Epoch(epoch), start_offset=Offset(offset)))


@given(RUNS)
def test_each_record_has_the_epoch_of_the_entry_before_it(runs: list[tuple[int, int]]) -> None:
    records = log_of(runs)
    cache = cache_of(records)
    assert [cache.epoch_at(Offset(offset)) for offset in range(len(records))] == records
    assert EpochCache([EpochStart(epoch=Epoch(3), start_offset=Offset(5))]).epoch_at(Offset(4)) is None


@pytest.mark.parametrize(
    ("start_offset", "expected"),
    [(0, [(1, 2), (3, 5)]), (2, [(1, 2), (3, 5)]), (4, [(1, 4), (3, 5)]), (5, [(3, 5)]), (9, [(3, 9)])],
)
def test_a_log_that_begins_later_knows_the_epoch_there(start_offset: int, expected: list[tuple[int, int]]) -> None:
    entries = [(1, 2), (3, 5)]
    cache = EpochCache(EpochStart(epoch=Epoch(epoch), start_offset=Offset(at)) for epoch, at in entries)
    cache.forget_before(Offset(start_offset))
    assert [(entry.epoch, entry.start_offset) for entry in cache.entries] == expected
