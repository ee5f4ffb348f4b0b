"""Averages, maxima and rates over sliding samples, and ratios of time, by a hand-moved clock.

Source: Kafka's ``SampledStat``, ``Avg``, ``Max``, ``Rate`` with ``WindowedSum``, and ``TimeRatio``.
"""

from __future__ import annotations

from math import isnan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.host.sensors import SAMPLE_MS, SAMPLES, Sensor, TimeRatio

WINDOW_MS = SAMPLES * SAMPLE_MS


def sensor(*recorded: tuple[float, float]) -> Sensor:
    """A sensor that was given these values, each with its time."""
    made = Sensor()
    for value, now_ms in recorded:
        made.record(value, now_ms)
    return made


def test_nothing_recorded_has_no_average_and_no_maximum_and_a_rate_of_zero() -> None:
    assert isnan(Sensor().average(5))
    assert isnan(Sensor().maximum(5))
    assert Sensor().rate_per_s(5) == 0


def test_average_and_maximum_are_of_all_values_in_the_window() -> None:
    measured = sensor((1, 0), (5, 10), (6, SAMPLE_MS + 10))
    assert measured.average(SAMPLE_MS + 20) == 4
    assert measured.maximum(SAMPLE_MS + 20) == 6


def test_a_sample_counts_until_it_began_a_window_ago() -> None:
    measured = sensor((9, 0), (1, SAMPLE_MS))
    assert measured.maximum(WINDOW_MS - 1) == 9
    assert measured.maximum(WINDOW_MS) == 1
    assert measured.average(WINDOW_MS) == 1
    assert isnan(measured.maximum(SAMPLE_MS + WINDOW_MS))


def test_the_oldest_sample_makes_room() -> None:
    measured = sensor(*((number, number * SAMPLE_MS) for number in range(10)))
    assert measured.average(9 * SAMPLE_MS) == 8.5


def test_a_sample_goes_on_for_its_whole_length() -> None:
    measured = sensor((9, 0), (1, SAMPLE_MS - 1))
    assert isnan(measured.maximum(WINDOW_MS)), "both were in the sample that began at 0"


def test_a_first_burst_is_divided_by_a_whole_sample_at_least() -> None:
    measured = sensor((300, 0))
    assert measured.rate_per_s(0) == 10
    assert measured.rate_per_s(10_000) == 7.5


def test_a_steady_flow_has_its_rate() -> None:
    measured = sensor(*((50, now_ms) for now_ms in range(0, 200_000, 100)))
    assert measured.rate_per_s(200_000) == pytest.approx(500, rel=0.01)


def test_a_rate_falls_to_zero_after_a_silent_window() -> None:
    measured = sensor((300, 0))
    assert measured.rate_per_s(WINDOW_MS - 1) > 0
    assert measured.rate_per_s(WINDOW_MS) == 0


@given(st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 20_000)), min_size=1, max_size=50), st.floats(0, 100_000))
def test_what_is_told_lies_within_what_was_recorded(steps: list[tuple[float, float]], silence_ms: float) -> None:
    measured, now_ms = Sensor(), 0.0
    for value, after_ms in steps:
        now_ms += after_ms
        measured.record(value, now_ms)
    now_ms += silence_ms
    values = [value for value, _ in steps]
    largest, average = measured.maximum(now_ms), measured.average(now_ms)
    assert isnan(largest) or largest in values
    assert isnan(average) or min(values) - 1e-6 <= average <= largest + 1e-6
    assert 0 <= measured.rate_per_s(now_ms) <= sum(values) / SAMPLE_MS * 1_000 + 1e-6


@pytest.mark.conformance(118)
def test_a_ratio_without_pieces_is_one() -> None:
    assert TimeRatio().measure() == 1


@pytest.mark.conformance(118)
def test_the_first_piece_only_begins_the_interval() -> None:
    ratio = TimeRatio()
    ratio.record(1_000, 1_000)
    assert ratio.measure() == 1
    ratio.record(0, 2_000)
    assert ratio.measure() == 0


@pytest.mark.conformance(118)
def test_a_ratio_is_of_the_time_since_the_last_measurement() -> None:
    ratio = TimeRatio()
    ratio.record(0, 0)
    ratio.record(10, 10)
    ratio.record(0, 20)
    assert ratio.measure() == 0.5
    ratio.record(10, 30)
    assert ratio.measure() == 1
    ratio.record(0, 40)
    assert ratio.measure() == 0


@pytest.mark.conformance(118)
def test_a_measurement_within_a_piece_leaves_it_to_the_next_interval() -> None:
    ratio = TimeRatio()
    ratio.record(0, 0)
    ratio.record(10, 10)
    ratio.record(0, 20)
    # A piece begins at 30; at 40, within it, is measured; it ends at 45.
    assert ratio.measure() == 0.5
    ratio.record(15, 45)
    assert ratio.measure() == pytest.approx(15 / 25)


@pytest.mark.conformance(118)
def test_a_second_measurement_at_once_has_nothing_to_divide() -> None:
    ratio = TimeRatio()
    ratio.record(0, 0)
    ratio.record(0, 10)
    assert ratio.measure() == 0
    assert ratio.measure() == 1


@pytest.mark.conformance(118)
def test_a_ratio_is_never_more_than_one() -> None:
    ratio = TimeRatio()
    ratio.record(0, 0)
    ratio.record(50, 10)
    assert ratio.measure() == 1
