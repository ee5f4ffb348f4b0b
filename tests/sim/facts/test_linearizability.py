"""The checker finds an order if there is one; a brute-force search agrees."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.sim.facts.linearizability import NEVER_US, Object, ObjectCall, SearchVerdict, check, offsets, register


def write(number: int, begin: int, end: int = NEVER_US) -> ObjectCall:
    return ObjectCall(begin, end, ("write", number))


def read(number: int, begin: int, end: int) -> ObjectCall:
    return ObjectCall(begin, end, ("read", number))


def append(base_offset: int, end_offset: int, begin: int, end: int) -> ObjectCall:
    return ObjectCall(begin, end, ("append", base_offset, end_offset))


LINEARIZABLE: dict[str, Sequence[ObjectCall]] = {
    "nothing happened": [],
    "one after the other": [write(1, 0, 1), read(1, 2, 3), write(2, 4, 5), read(2, 6, 7)],
    "a read of the beginning": [read(0, 0, 1), write(1, 2, 3)],
    "a read beside a write may see it": [write(1, 0, 9), read(1, 2, 3)],
    "or not": [write(1, 0, 9), read(0, 2, 3), read(1, 4, 5)],
    "two writes in the order of the reads": [write(1, 0, 9), write(2, 0, 9), read(2, 10, 11)],
    "an open write that took effect late": [write(1, 0), read(0, 1, 2), write(2, 3, 4), read(1, 5, 6)],
    "an open write that never did": [write(1, 0), write(2, 1, 2), read(2, 3, 4)],
    "calls of one moment": [write(1, 0, 1), read(0, 1, 2)],
}
NOT_LINEARIZABLE: dict[str, Sequence[ObjectCall]] = {
    "a lost write": [write(1, 0, 1), read(0, 2, 3)],
    "a read from nowhere": [read(7, 0, 1)],
    "a read of the future": [read(1, 0, 1), write(1, 2, 3)],
    "a stale read": [write(1, 0, 1), write(2, 2, 3), read(1, 4, 5)],
    "a read that goes back": [write(1, 0, 9), read(1, 1, 2), read(0, 3, 4)],
    "two readers that disagree": [write(1, 0, 9), write(2, 0, 9), read(1, 10, 11), read(2, 12, 13)],
    "an open write that took effect and was lost": [write(1, 0), read(1, 1, 2), read(0, 3, 4)],
}


@pytest.mark.parametrize("name", LINEARIZABLE)
def test_a_history_with_an_order_passes(name: str) -> None:
    assert check(LINEARIZABLE[name], register) is SearchVerdict.LINEARIZABLE


@pytest.mark.parametrize("name", NOT_LINEARIZABLE)
def test_a_history_without_one_does_not(name: str) -> None:
    assert check(NOT_LINEARIZABLE[name], register) is SearchVerdict.NOT_LINEARIZABLE


def test_offsets_follow_the_order_of_time() -> None:
    assert check([append(0, 2, 0, 9), append(5, 6, 1, 2), append(2, 4, 0, 9)], offsets) is SearchVerdict.LINEARIZABLE
    assert check([append(5, 6, 0, 1), append(2, 3, 2, 3)], offsets) is SearchVerdict.NOT_LINEARIZABLE
    assert check([append(0, 3, 0, 9), append(2, 4, 0, 9)], offsets) is SearchVerdict.NOT_LINEARIZABLE


def test_the_search_is_bounded() -> None:
    calls = [write(number, 0, 99) for number in range(1, 20)]
    assert check([*calls, read(77, 0, 99)], register, steps_max=1_000) is SearchVerdict.UNDECIDED
    assert check(calls, register, steps_max=1_000) is SearchVerdict.LINEARIZABLE


def brute_force(calls: Sequence[ObjectCall], behaves: Object) -> bool:
    """Every order of all calls, the open ones left out or not."""
    for count in range(len(calls) + 1):
        for order in permutations(calls, count):
            if {*range(len(calls))} - {calls.index(call) for call in order} <= {
                number for number, call in enumerate(calls) if call.answered_us == NEVER_US
            } and _explains(order, behaves):
                return True
    return False


def _explains(order: Sequence[ObjectCall], behaves: Object) -> bool:
    state: int | None = 0
    latest_us = 0
    for call in order:
        latest_us = max(latest_us, call.invoked_us)
        if state is None or call.answered_us < latest_us:
            return False
        state = behaves(state, call.what)
    return state is not None


@st.composite
def histories(draw: st.DrawFn) -> list[ObjectCall]:
    calls = []
    for number in range(1, draw(st.integers(0, 5)) + 1):
        begin = draw(st.integers(0, 6)) * 10 + number
        end = draw(st.sampled_from([begin + 5, begin + 25, NEVER_US]))
        if draw(st.booleans()):
            calls.append(write(number, begin, end))
        elif end < NEVER_US:
            calls.append(read(draw(st.integers(0, 5)), begin, end))
    return calls


@given(histories())
def test_it_agrees_with_trying_all_orders(calls: list[ObjectCall]) -> None:
    expected = SearchVerdict.LINEARIZABLE if brute_force(calls, register) else SearchVerdict.NOT_LINEARIZABLE
    assert check(calls, register) is expected
