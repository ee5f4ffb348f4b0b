"""Quorum arithmetic, compared with a brute-force search of every subset of voters."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.core.quorum import majority_end_offset, majority_of
from pykraft.types import Offset

ENDS = st.lists(st.one_of(st.none(), st.integers(0, 6).map(Offset)), min_size=1, max_size=7)


@pytest.mark.parametrize("count", range(1, 9))
def test_a_majority_is_the_smallest_number_with_which_any_two_sets_meet(count: int) -> None:
    def always_meet(size: int) -> bool:
        sets = [set(chosen) for chosen in combinations(range(count), size)]
        return all(one & other for one in sets for other in sets)

    assert majority_of(count) == next(size for size in range(1, count + 1) if always_meet(size))


@pytest.mark.conformance(141)
@pytest.mark.parametrize("count", range(1, 7))
def test_sets_that_differ_by_one_member_meet_in_all_their_majorities(count: int) -> None:
    smaller, larger = range(count), range(count + 1)
    for one in combinations(smaller, majority_of(count)):
        for other in combinations(larger, majority_of(count + 1)):
            assert set(one) & set(other), "a change of the voters by more than one would elect two leaders"


@pytest.mark.conformance(93)
@given(ENDS)
def test_the_majority_end_is_the_highest_that_some_majority_has_reached(ends: list[Offset | None]) -> None:
    reached = [
        min(offset for offset in chosen if offset is not None)
        for chosen in combinations(ends, majority_of(len(ends)))
        if None not in chosen
    ]
    assert majority_end_offset(ends) == max(reached, default=None)


@pytest.mark.parametrize("call", [lambda: majority_of(0), lambda: majority_end_offset([])])
def test_a_quorum_has_voters(call: object) -> None:
    assert callable(call)
    with pytest.raises(AssertionError):
        call()
