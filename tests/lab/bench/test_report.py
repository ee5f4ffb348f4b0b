"""The tables contain the results, and a dash where there are none."""

from __future__ import annotations

from pathlib import Path

from lab.bench.comparison import compare
from lab.bench.measure import Run
from lab.bench.race import Lap
from lab.bench.report import failures, report

RATIOS = (
    "pykraft / kafka: 2.00 × the records (2.00 to 2.00 × within a turn), 0.50 × the processor time of a record, "
    "2.00 × the memory"
)


def lap(contender: str, turn: int, run: Run) -> Lap:
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
        lap("pykraft", 1, good(200_000, {"p50": 1.25, "p75": 2, "p99": 3, "p999": 4})),
        lap("kafka", 1, good(100_000, {"p75": 24, "p99": 142, "p999": 249})),
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


def test_what_failed_is_told_once() -> None:
    laps = [lap("kafka", turn, Run(latency_ms={}, failure="its load thread died")) for turn in (1, 2)]
    comparisons = compare(laps)
    assert failures(comparisons) == ["kafka, 256 bytes, logs: 2 of 2 runs: its load thread died"]
    assert report(comparisons, {}).splitlines()[2].split() == ["kafka", *["-"] * 11]
