"""Durations have one form each, in seconds for limits and in ms for measurements."""

from __future__ import annotations

import pytest

from pykraft.durations import about, in_ms, in_seconds, ms_number


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
