"""Fetches that wait."""

from __future__ import annotations

import pytest

from pykraft.core.parked import PARKED_FETCHES_MAX, ParkedFetch, ParkedFetches
from tests.core.said import fetch


def parked(request_id: int, deadline_ms: int) -> ParkedFetch:
    return ParkedFetch(request_id=request_id, listener="A", request=fetch(), deadline_ms=deadline_ms)


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
