"""The epoch cache, compared with a list of every record's epoch.

Epochs are spent from a budget that refills; a sender that raises the epoch without winning must wait.

Source: KIP-101, KIP-595 §Log reconciliation; Kafka ``LeaderEpochFileCache``; ours; Raft dissertation §6.2 (disruptive
servers); Kafka adopts every epoch.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.core.epoch_budget import DAY_MS, DOUBLINGS_MAX, EPOCHS_PER_DAY, FREE_RAISES, STRANGERS, EpochBudget
from pykraft.core.epochs import EpochCache
from pykraft.types import Epoch, EpochStart, NodeId, Offset, OffsetAndEpoch

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


PAUSE_MS = 2_000
SENDER = NodeId(7)


def raised(budget: EpochBudget, times: int, *, at_ms: int = 0) -> list[int]:
    return [budget.raised(SENDER, at_ms, PAUSE_MS) for _ in range(times)]


def test_a_days_epochs_are_there_at_the_start_and_come_back_over_a_day() -> None:
    budget = EpochBudget()
    assert not budget.spend(EPOCHS_PER_DAY + 1, 0)
    assert budget.spend(EPOCHS_PER_DAY, 0)
    assert not budget.spend(1, 82)
    assert budget.spend(1, 83)
    assert not budget.spend(EPOCHS_PER_DAY // 2 + 1, DAY_MS // 2)
    assert budget.spend(EPOCHS_PER_DAY // 2 - 1, DAY_MS // 2)


def test_no_more_than_a_days_epochs_are_saved() -> None:
    budget = EpochBudget()
    assert budget.spend(1, 0)
    assert not budget.spend(EPOCHS_PER_DAY + 1, 9 * DAY_MS)


def test_a_sender_waits_longer_and_longer_up_to_a_bound() -> None:
    waits = raised(EpochBudget(), FREE_RAISES + DOUBLINGS_MAX + 3)
    assert waits == [0] * FREE_RAISES + [PAUSE_MS << doubling for doubling in (*range(7), 6, 6)]


def test_it_is_heard_again_when_its_time_is_over() -> None:
    budget = EpochBudget()
    assert not budget.must_wait(SENDER, 0)
    raised(budget, FREE_RAISES + 1)
    assert budget.must_wait(SENDER, PAUSE_MS - 1)
    assert not budget.must_wait(SENDER, PAUSE_MS)
    assert not budget.must_wait(STRANGERS, 0)


def test_who_was_quiet_for_long_begins_anew() -> None:
    budget = EpochBudget()
    raised(budget, FREE_RAISES)
    later_ms = PAUSE_MS + (PAUSE_MS << DOUBLINGS_MAX)
    assert raised(budget, 1, at_ms=later_ms) == [0]


def test_one_voter_is_asked_once_in_a_while() -> None:
    budget = EpochBudget()
    assert budget.may_ask(SENDER, 0, PAUSE_MS)
    budget.asked(SENDER, 0)
    assert [budget.may_ask(SENDER, ms, PAUSE_MS) for ms in (0, PAUSE_MS - 1, PAUSE_MS)] == [False, False, True]
    assert budget.may_ask(NodeId(2), 0, PAUSE_MS)


def test_former_voters_are_forgotten_and_strangers_are_not() -> None:
    budget = EpochBudget()
    for sender in (SENDER, NodeId(2), STRANGERS):
        for _ in range(FREE_RAISES + 1):
            budget.raised(sender, 0, PAUSE_MS)
    budget.keep([NodeId(1), NodeId(2)])
    assert [budget.must_wait(sender, 1) for sender in (SENDER, NodeId(2), STRANGERS)] == [False, True, True]
    for voter in (SENDER, NodeId(2)):
        budget.asked(voter, 0)
    budget.keep([NodeId(2)])
    assert [budget.may_ask(voter, 1, PAUSE_MS) for voter in (SENDER, NodeId(2))] == [True, False]
