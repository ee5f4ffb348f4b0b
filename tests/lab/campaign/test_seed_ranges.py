"""A sequence of seeds is like the list of them, and small."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.campaign.seed_ranges import SeedRanges

SEEDS = st.lists(st.integers(0, 12), unique=True)


@given(SEEDS, st.integers(-2, 14), st.integers(-2, 14))
def test_it_is_like_the_list(seeds: list[int], start: int, stop: int) -> None:
    ranges = SeedRanges.of(seeds)
    assert list(ranges) == seeds
    assert len(ranges) == len(seeds)
    assert [ranges[place] for place in range(-len(seeds), len(seeds))] == seeds * 2
    assert list(ranges[start:stop]) == seeds[start:stop]


def test_there_is_nothing_behind_its_end() -> None:
    for place in (2, -3):
        with pytest.raises(IndexError):
            SeedRanges([range(5, 7)])[place]


def test_a_million_seeds_are_a_few_numbers() -> None:
    seeds = SeedRanges.of(seed for seed in range(1_000_000) if seed != 500_000)
    assert seeds.ranges == (range(500_000), range(500_001, 1_000_000))
    assert len(pickle.dumps(seeds[1_000:900_000])) < 400
