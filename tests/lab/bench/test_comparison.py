"""Medians, spreads and ratios of measurements that were taken in turn."""

from pathlib import Path

import pytest

from lab.bench.comparison import Spread, compare, report
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


def test_runs_that_failed_in_turn_leave_the_ratio_of_medians() -> None:
    (result,) = compare([lap("a", 1, 10), lap("b", 1, 0, failed=True), lap("a", 2, 0, failed=True), lap("b", 2, 5)])
    assert result.rate_ratio == Spread(low=2.0, median=2.0, high=2.0)


RATIOS = (
    "pykraft / kafka: 2.00 × the records (2.00 to 2.00 × within a turn), 0.50 × the processor time of a record, "
    "2.00 × the memory"
)


def reported_lap(contender: str, turn: int, run: Run) -> Lap:
    folder = Path("logs")
    return Lap(contender=contender, folder=folder, record_size_bytes=256, turn=turn, records_per_s=None, run=run)


def good(rate: float, latency_ms: dict[str, float]) -> Run:
    return Run(
        records_per_s=rate,
        latency_ms=latency_ms,
        leader_cpu=0.5,
        follower_cpu=0.25,
        cpu_us_per_record=1e5 / rate,
        memory_mib=rate / 1_000,
    )


def test_a_table_with_its_ratios() -> None:
    laps = [
        reported_lap("pykraft", 1, good(200_000, {"p50": 1.25, "p75": 2, "p99": 3, "p999": 4})),
        reported_lap("kafka", 1, good(100_000, {"p75": 24, "p99": 142, "p999": 249})),
    ]
    assert report(compare(laps), {"cores": 2, "kernel": "Linux"}).splitlines() == [
        "256 bytes, logs",
        "         records/s    least     most  p50 ms  p75 ms  p99 ms  p99.9 ms  leader  follower  µs/record  MiB/node",
        "pykraft    200,000  200,000  200,000     1.2     2.0     3.0       4.0    0.50      0.25       0.50       200",
        "kafka      100,000  100,000  100,000       -    24.0   142.0     249.0    0.50      0.25       1.00       100",
        RATIOS,
        "",
        "records/s: committed; median, minimum and maximum of the runs; leader, follower: processor cores in use;",
        "µs/record: processor time of all nodes for one record; MiB/node: peak resident memory of any node",
        "cores 2, kernel Linux",
    ]
