"""Counts agree with their nouns.

Durations have one form each, in seconds for limits and in ms for measurements.

Percentiles weighted by records: the nearest rank, compared with a count of all records.

Suggestions for misspelled names.
"""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.text.words import about, closest, counted, did_you_mean, in_ms, in_seconds, ms_number, percentiles


@pytest.mark.parametrize(
    ("count", "noun", "plural", "text"),
    [
        (1, "batch", None, "1 batch"),
        (2, "batch", None, "2 batches"),
        (0, "segment", None, "0 segments"),
        (1, "other entry", "other entries", "1 other entry"),
        (3, "other entry", "other entries", "3 other entries"),
        (1_234, "row", None, "1,234 rows"),
    ],
)
def test_the_noun_agrees_with_its_count(count: int, noun: str, plural: str | None, text: str) -> None:
    assert counted(count, noun, plural) == text


@pytest.mark.parametrize(
    ("duration_ms", "told"),
    [(15_000, "15 s"), (1_500, "1.5 s"), (50, "0.05 s"), (1, "0.001 s"), (3_600_000, "3,600 s")],
)
def test_a_limit_is_told_in_seconds_as_it_was_typed(duration_ms: int, told: str) -> None:
    assert in_seconds(duration_ms) == told


@pytest.mark.parametrize(
    ("duration_ms", "told"),
    [(2_063, "2,063"), (6_969.0, "6,969"), (7, "7"), (4.25, "4.2"), (99.94, "99.9"), (99.96, "100"), (0.0, "0.0")],
)
def test_a_measurement_has_as_many_digits_as_say_something(duration_ms: float, told: str) -> None:
    assert ms_number(duration_ms) == told
    assert in_ms(duration_ms) == f"{told} ms"


def test_a_rough_duration_is_in_seconds_or_minutes() -> None:
    assert (about(99.4), about(150)) == ("about 99 s", "about 2 minutes")


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


@pytest.mark.parametrize(
    ("word", "name"), [("sever", "server"), ("dmup", "dump"), ("serv", "server"), ("xyz", None), ("", None)]
)
def test_only_a_similar_name_is_suggested(word: str, name: str | None) -> None:
    assert closest(word, iter(["dump", "server", "sim"])) == name


def test_the_words_for_a_message() -> None:
    assert did_you_mean("sever", ["server"]) == "; did you mean server?"
    assert did_you_mean("sever", ["dump"]) == ""


def test_how_similar_a_name_must_be_is_the_callers_choice() -> None:
    assert closest("num.partitions", ["num.io.threads"], similarity_min=0.3) == "num.io.threads"
    assert closest("num.partitions", ["num.io.threads"], similarity_min=0.8) is None
