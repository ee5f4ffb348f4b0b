"""Parked Fetches, and the turns in which they are answered."""

from dataclasses import replace

import pytest

from pykraft.core.leader.parked import (
    OTHERS_PER_STEP_MAX,
    PACE_MS,
    PARKED_FETCHES_MAX,
    ParkedFetch,
    ParkedFetches,
    Turns,
)
from tests.core.said import fetch


def parked(request_id: int, deadline_ms: int, *, is_voter: bool = False) -> ParkedFetch:
    return ParkedFetch(request_id=request_id, listener="A", request=fetch(), deadline_ms=deadline_ms, is_voter=is_voter)


def committed_only(request_id: int, deadline_ms: int) -> ParkedFetch:
    return replace(parked(request_id, deadline_ms), request=replace(fetch(), is_committed_only=True))


def ids(fetches: list[ParkedFetch]) -> list[int]:
    return [fetch.request_id for fetch in fetches]


def test_it_is_known_which_voter_waits() -> None:
    fetches = ParkedFetches()
    fetches.park(parked(1, 30, is_voter=True))
    fetches.park(replace(parked(2, 30), request=fetch(replica=3)))
    assert [fetches.has_from(voter_id) for voter_id in (2, 3)] == [True, False]
    fetches.drop(1)
    assert not fetches.has_from(2)


@pytest.mark.conformance(117)
def test_those_whose_time_is_over_are_taken_and_the_others_stay_in_order() -> None:
    fetches = ParkedFetches()
    assert fetches.next_deadline_ms() is None
    for request_id, deadline_ms in ((1, 30), (2, 10), (3, 20), (4, 10)):
        fetches.park(parked(request_id, deadline_ms))
    assert fetches.next_deadline_ms() == 10
    assert fetches.take_expired(9) == []
    assert [fetch.request_id for fetch in fetches.take_expired(10)] == [2, 4]
    assert fetches.next_deadline_ms() == 20
    assert [fetch.request_id for fetch in fetches.take_all()] == [1, 3]
    assert fetches.take_all() == []


@pytest.mark.conformance(117)
def test_no_more_wait_than_may() -> None:
    fetches = ParkedFetches()
    for request_id in range(PARKED_FETCHES_MAX):
        assert not fetches.is_full
        fetches.park(parked(request_id, 0))
    assert fetches.is_full
    with pytest.raises(AssertionError):
        fetches.park(parked(0, 0))


def test_what_nobody_waits_for_is_dropped() -> None:
    fetches = ParkedFetches()
    for request_id in (1, 2, 3):
        fetches.park(parked(request_id, 10, is_voter=request_id == 2))
    fetches.drop(1)
    fetches.drop(2)
    fetches.drop(99)
    assert ids(fetches.take_expired(10)) == [3]
    assert fetches.next_deadline_ms() is None


def test_those_that_want_committed_records_only_are_woken_by_a_commit_only() -> None:
    fetches = ParkedFetches()
    fetches.park(parked(1, 40))
    for request_id, deadline_ms in ((2, 30), (3, 20), (4, 50)):
        fetches.park(committed_only(request_id, deadline_ms))
    assert ids(fetches.take_woken(0)) == [1]
    assert fetches.next_deadline_ms() == 20
    assert ids(fetches.take_expired(25)) == [3]
    fetches.drop(4)
    fetches.hasten(27)
    assert fetches.next_deadline_ms() == 27
    fetches.wake_committed_only()
    assert fetches.next_deadline_ms() == 0
    assert ids(fetches.take_due(27)) == [2]
    assert (fetches.take_all(), fetches.take_oldest_other()) == ([], None)


def test_committed_records_are_answered_at_a_pace() -> None:
    fetches = ParkedFetches()
    count = 2 * OTHERS_PER_STEP_MAX + 1
    for request_id in range(count):
        fetches.park(committed_only(request_id, 100))
    fetches.wake_committed_only()
    assert ids(fetches.take_woken(50)) == [*range(OTHERS_PER_STEP_MAX)]
    assert fetches.next_deadline_ms() == 50 + PACE_MS
    assert not fetches.has_turn(committed_only(0, 0).request, 50 + PACE_MS), "others were there before"
    assert fetches.has_turn(fetch(), 50)
    fetches.park(committed_only(count, 0), is_due=True)
    assert fetches.take_expired(50 + PACE_MS - 1) == []
    assert ids(fetches.take_expired(50 + PACE_MS)) == [*range(OTHERS_PER_STEP_MAX, 2 * OTHERS_PER_STEP_MAX)]
    assert ids(fetches.take_expired(50 + 2 * PACE_MS)) == [count - 1, count]
    asked = [fetches.has_turn(committed_only(0, 0).request, 50 + 2 * PACE_MS) for _ in range(OTHERS_PER_STEP_MAX)]
    assert asked.count(True) == OTHERS_PER_STEP_MAX - 2
    assert (fetches.next_deadline_ms(), fetches.take_all()) == (None, [])


def test_voters_are_woken_first_and_the_others_a_bounded_number_at_a_time() -> None:
    fetches = ParkedFetches()
    count = 2 * OTHERS_PER_STEP_MAX + 1
    for request_id in range(count):
        fetches.park(parked(request_id, 50))
    for request_id in (1_001, 1_002):
        fetches.park(parked(request_id, 50, is_voter=True))
    assert ids(fetches.take_woken(0)) == [1_001, 1_002, *range(OTHERS_PER_STEP_MAX)]
    assert fetches.next_deadline_ms() == 0, "the rest follows as soon as possible"
    fetches.drop(OTHERS_PER_STEP_MAX)
    fetches.park(parked(2_000, 7))
    assert ids(fetches.take_expired(1)) == [*range(OTHERS_PER_STEP_MAX + 1, count)]
    assert fetches.next_deadline_ms() == 7
    assert ids(fetches.take_expired(7)) == [2_000]


def test_all_may_be_hastened_and_never_wait_any_longer_for_it() -> None:
    fetches = ParkedFetches()
    fetches.hasten(20)
    assert fetches.next_deadline_ms() is None
    for request_id, deadline_ms in ((1, 10), (2, 50), (3, 60)):
        fetches.park(parked(request_id, deadline_ms, is_voter=request_id == 3))
    fetches.hasten(20)
    assert fetches.next_deadline_ms() == 10
    fetches.hasten(30)
    assert ids(fetches.take_expired(19)) == [1]
    assert fetches.next_deadline_ms() == 20
    assert ids(fetches.take_expired(20)) == [3, 2], "voters first"
    assert fetches.next_deadline_ms() is None


def test_those_hastened_together_are_answered_a_bounded_number_at_a_time() -> None:
    fetches = ParkedFetches()
    for request_id in range(OTHERS_PER_STEP_MAX + 1):
        fetches.park(parked(request_id, 50))
    fetches.hasten(20)
    assert ids(fetches.take_expired(20)) == [*range(OTHERS_PER_STEP_MAX)]
    assert fetches.next_deadline_ms() == 0, "the rest follows as soon as possible"
    assert ids(fetches.take_expired(20)) == [OTHERS_PER_STEP_MAX]


def test_the_oldest_that_is_no_voters_makes_room() -> None:
    fetches = ParkedFetches()
    assert fetches.take_oldest_other() is None
    fetches.park(parked(1, 5, is_voter=True))
    assert fetches.take_oldest_other() is None
    for request_id in range(2, 4 + OTHERS_PER_STEP_MAX):
        fetches.park(parked(request_id, 5))
    fetches.take_woken(0)
    fetches.park(parked(500, 5))
    found = [fetches.take_oldest_other() for _ in range(3)]
    assert [fetch and fetch.request_id for fetch in found] == [2 + OTHERS_PER_STEP_MAX, 3 + OTHERS_PER_STEP_MAX, 500]
    assert fetches.take_oldest_other() is None


def test_a_deadline_that_was_dropped_is_looked_for_once() -> None:
    fetches = ParkedFetches()
    fetches.park(parked(1, 10))
    fetches.park(parked(2, 20, is_voter=True))
    fetches.drop(1)
    assert fetches.next_deadline_ms() == 10
    assert fetches.take_expired(10) == []
    assert fetches.next_deadline_ms() == 20


def test_so_many_go_in_so_much_time_however_many_want_to() -> None:
    turns = Turns(3, 10)
    assert turns.next_ms == 0
    assert turns.take(2, 100) == 2
    assert turns.next_ms == 0
    assert turns.take(5, 101) == 1
    assert (turns.next_ms, turns.take(1, 109)) == (110, 0)
    assert (turns.take(5, 110), turns.next_ms) == (3, 120)


def test_the_time_begins_with_the_first() -> None:
    turns = Turns(1, 10)
    assert turns.take(1, 995) == 1
    assert (turns.next_ms, turns.take(1, 1_004), turns.take(1, 1_005)) == (1_005, 0, 1)
