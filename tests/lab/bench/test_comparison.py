"""Medians, spreads and ratios of measurements that were taken in turn.

Options that cannot be measured are rejected in one line that names the option.
"""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from lab.bench.comparison import Spread, compare, report
from lab.bench.measure import Run
from lab.bench.options import RUN_SIZE_BYTES_MAX, BenchOptions, parse_sizes, parse_throughput, run_size_bytes
from lab.bench.race import Lap
from pykraft.errors import UsageError

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


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"nodes": 0}, "--nodes 0: give 1 to 9"),
        ({"runs": -1}, "--runs -1: give 1 to 100"),
        ({"linger_ms": -1}, "--linger-ms -1"),
        ({"seconds": 0.0}, "--seconds 0"),
        ({"seconds": float("nan")}, "--seconds nan"),
        ({"warm_up_s": -1.0}, "--warm-up -1"),
        ({"records_per_s": 0}, "--throughput 0"),
        ({"record_sizes_bytes": ()}, "at least one size"),
        ({"record_sizes_bytes": (100, 0)}, "--record-size 0"),
        ({"record_sizes_bytes": (2**30,)}, f"--record-size {2**30}"),
    ],
)
def test_values_out_of_range_are_refused(tmp_path: Path, changes: dict[str, object], problem: str) -> None:
    with pytest.raises(UsageError) as refused:
        BenchOptions(folders=(tmp_path,), **changes)  # type: ignore[arg-type]
    assert problem in str(refused.value)


def test_a_folder_must_be_there_and_writable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="there is no such folder"):
        BenchOptions(folders=(tmp_path / "none",))
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="there is no such folder"):
        BenchOptions(folders=(tmp_path / "file",))
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(UsageError, match="may not write there"):
        BenchOptions(folders=(tmp_path,))


@pytest.mark.parametrize(
    ("free_mib", "allowed_mib"), [(1_000, 600), (10_000, 6_000), (100_000, RUN_SIZE_BYTES_MAX >> 20)]
)
def test_a_run_takes_a_part_of_what_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free_mib: int, allowed_mib: int
) -> None:
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_bavail=free_mib * 256, f_frsize=4096))
    assert run_size_bytes(tmp_path) >> 20 == allowed_mib


def test_a_folder_that_is_nearly_full_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_bavail=100 * 256, f_frsize=4096))
    with pytest.raises(UsageError, match="only 100 MiB are free, and a run needs 426 MiB"):
        BenchOptions(folders=(tmp_path,))


@pytest.mark.parametrize("text", ["", "a", "100,", "-1", "1e3", "\u0661", "1" * 10])
def test_what_is_no_list_of_sizes_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--record-size"):
        parse_sizes(text)


@pytest.mark.parametrize("text", ["", "-1", "all", "1.5", "1" * 13])
def test_what_is_no_throughput_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--throughput"):
        parse_throughput(text)
