"""Medians, spreads and ratios of measurements that were taken in turn."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.bench.comparison import Spread, compare
from lab.bench.measure import Run
from lab.bench.race import Lap

FOLDER = Path("somewhere")


def lap(
    contender: str, turn: int, rate: float, *, memory_mib: float = 50, size: int = 100, failed: bool = False
) -> Lap:
    run = (
        Run(latency_ms={}, failure="died")
        if failed
        else Run(records_per_s=rate, latency_ms={"p50": rate / 10}, leader_cpu=0.5, memory_mib=memory_mib)
    )
    return Lap(contender=contender, folder=FOLDER, record_size_bytes=size, turn=turn, records_per_s=None, run=run)


def test_the_ratio_is_of_medians_and_its_spread_of_turns() -> None:
    rates = {1: (100, 50), 2: (300, 100), 3: (200, 200)}
    laps = [
        lap(name, turn, rate, memory_mib=memory)
        for turn, both in rates.items()
        for name, rate, memory in zip("ab", both, (80, 800), strict=True)
    ]
    (result,) = compare(laps)
    assert result.rate_ratio == Spread(low=1.0, median=2.0, high=3.0)
    assert result.memory_ratio == pytest.approx(0.1)
    first, _ = result.figures
    assert first.records_per_s == Spread(low=100, median=200, high=300)
    assert first.latency_ms == {"p50": 20}
    assert first.leader_cpu == 0.5


def test_sizes_are_compared_apart() -> None:
    results = compare([lap("a", 1, 10), lap("b", 1, 5), lap("a", 1, 30, size=256), lap("b", 1, 10, size=256)])
    assert [result.record_size_bytes for result in results] == [100, 256]
    assert [result.rate_ratio.median for result in results if result.rate_ratio] == [2, 3]


def test_a_failed_run_has_no_rate_and_its_turn_no_ratio() -> None:
    (result,) = compare([lap("a", 1, 10), lap("b", 1, 0, failed=True), lap("a", 2, 20), lap("b", 2, 10)])
    assert result.rate_ratio == Spread(low=2.0, median=1.5, high=2.0)
    assert result.figures[1].failures == ("died",)
    assert result.figures[1].runs == 2


def test_without_a_good_run_or_a_second_contender_there_is_no_ratio() -> None:
    (result,) = compare([lap("a", 1, 10), lap("b", 1, 0, failed=True)])
    assert result.rate_ratio is None
    assert result.figures[1].records_per_s is None
    (alone,) = compare([lap("a", 1, 10)])
    assert alone.rate_ratio is None
    assert alone.memory_ratio is None


def test_runs_that_failed_in_turn_leave_the_ratio_of_medians() -> None:
    (result,) = compare([lap("a", 1, 10), lap("b", 1, 0, failed=True), lap("a", 2, 0, failed=True), lap("b", 2, 5)])
    assert result.rate_ratio == Spread(low=2.0, median=2.0, high=2.0)
