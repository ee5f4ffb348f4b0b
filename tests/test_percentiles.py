"""Percentiles weighted by records: the nearest rank, compared with a count of all records."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from pykraft.percentiles import percentiles

SHARES = {"p50": 0.5, "p99": 0.99, "max": 1.0}


def test_without_values_all_are_zero() -> None:
    assert percentiles((), SHARES) == {"p50": 0.0, "p99": 0.0, "max": 0.0}


def test_a_value_weighs_as_many_records_as_it_stands_for() -> None:
    assert percentiles([(7.0, 1), (1.0, 99)], SHARES) == {"p50": 1.0, "p99": 1.0, "max": 7.0}
    assert percentiles([(7.0, 2), (1.0, 98)], SHARES) == {"p50": 1.0, "p99": 7.0, "max": 7.0}


@given(st.lists(st.tuples(st.floats(0, 100), st.integers(1, 20)), min_size=1), st.sampled_from([0.01, 0.5, 0.75, 1.0]))
def test_they_are_the_nearest_ranks(values: list[tuple[float, int]], share: float) -> None:
    everything = sorted(value for value, count in values for _ in range(count))
    rank = max(1, math.ceil(len(everything) * share))
    assert percentiles(values, {"it": share}) == {"it": everything[rank - 1]}
