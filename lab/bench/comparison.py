"""Computes the median and spread of the laps for each folder and record size, and their ratios; renders them as text.

A lap is one run of one contender; in a turn each contender runs once. Invariants: a ratio of one turn compares two runs
that followed each other. The result is the ratio of the medians; the smallest and largest ratio of a turn show how far
to trust it. A failed run has no rate, and its turn has no ratio; an unknown figure is a dash, never a zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from lab.bench.measure import Run, machine
from lab.bench.options import BenchOptions
from lab.bench.race import Lap
from pykraft.text.table import table_lines
from pykraft.text.words import counted

UNKNOWN = "-"
LATENCIES = {"p50": "p50 ms", "p75": "p75 ms", "p99": "p99 ms", "p999": "p99.9 ms"}
HEADS = ("", "records/s", "least", "most", *LATENCIES.values(), "leader", "follower", "µs/record", "MiB/node")
LEGEND = (
    "records/s: committed; median, minimum and maximum of the runs; leader, follower: processor cores in use;\n"
    "µs/record: processor time of all nodes for one record; MiB/node: peak resident memory of any node"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Minimum, median and maximum of some figures."""

    low: float
    median: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(low=min(values), median=median(values), high=max(values))


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One contender with one folder and record size; the latencies are medians of its runs."""

    contender: str
    runs: int
    failures: tuple[str, ...]
    records_per_s: Spread | None
    latency_ms: Mapping[str, float]
    leader_cpu: float
    follower_cpu: float
    cpu_us_per_record: float
    memory_mib: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All contenders with one folder and record size; ratios are of the first to the second, None without both.

    ``rate_ratio`` has the ratio of the medians in the middle, and the smallest and largest ratio of a turn at its ends.
    The ratios of CPU per record and of memory are ratios of medians.
    """

    folder: Path
    record_size_bytes: int
    figures: tuple[Figures, ...]
    rate_ratio: Spread | None = None
    cpu_ratio: float | None = None
    memory_ratio: float | None = None


def compare(laps: Sequence[Lap]) -> list[Comparison]:
    """One comparison for each folder and record size, in their order."""
    places = dict.fromkeys((lap.folder, lap.record_size_bytes) for lap in laps)
    return [
        _compare(
            folder, size_bytes, [lap for lap in laps if (lap.folder, lap.record_size_bytes) == (folder, size_bytes)]
        )
        for folder, size_bytes in places
    ]


def _compare(folder: Path, record_size_bytes: int, laps: Sequence[Lap]) -> Comparison:
    names = list(dict.fromkeys(lap.contender for lap in laps))
    figures = tuple(_figures(name, [lap.run for lap in laps if lap.contender == name]) for name in names)
    compared = Comparison(folder=folder, record_size_bytes=record_size_bytes, figures=figures)
    if len(figures) != 2 or figures[0].records_per_s is None or figures[1].records_per_s is None:
        return compared
    first, second = figures
    of_medians = figures[0].records_per_s.median / figures[1].records_per_s.median
    ratios = _turn_ratios(laps, *names) or [of_medians]
    return replace(
        compared,
        rate_ratio=Spread(low=min(ratios), median=of_medians, high=max(ratios)),
        cpu_ratio=first.cpu_us_per_record / second.cpu_us_per_record if second.cpu_us_per_record else None,
        memory_ratio=first.memory_mib / second.memory_mib if second.memory_mib else None,
    )


def _turn_ratios(laps: Sequence[Lap], first: str, second: str) -> list[float]:
    rates = {(lap.turn, lap.contender): lap.run.records_per_s for lap in laps if lap.run.failure is None}
    turns = dict.fromkeys(lap.turn for lap in laps)
    return [
        rates[turn, first] / rates[turn, second] for turn in turns if (turn, first) in rates and (turn, second) in rates
    ]


def _figures(contender: str, runs: Sequence[Run]) -> Figures:
    good = [run for run in runs if run.failure is None]

    def middle(of: Callable[[Run], float]) -> float:
        return median(map(of, good)) if good else 0.0

    names = dict.fromkeys(name for run in good for name in run.latency_ms)
    latencies = {name: [run.latency_ms[name] for run in good if name in run.latency_ms] for name in names}
    return Figures(
        contender=contender,
        runs=len(runs),
        failures=tuple(run.failure for run in runs if run.failure is not None),
        records_per_s=Spread.of([run.records_per_s for run in good]) if good else None,
        latency_ms={name: median(values) for name, values in latencies.items()},
        leader_cpu=middle(lambda run: run.leader_cpu),
        follower_cpu=middle(lambda run: run.follower_cpu),
        cpu_us_per_record=middle(lambda run: run.cpu_us_per_record),
        memory_mib=middle(lambda run: run.memory_mib),
    )


def report(comparisons: Sequence[Comparison], where: Mapping[str, object], *, width: int | None = None) -> str:
    """The whole report, without a final newline; tables that are wider than ``width`` become blocks of lines."""
    lines: list[str] = []
    for comparison in comparisons:
        lines += [*_table(comparison, width), ""]
    return "\n".join([*lines, LEGEND, ", ".join(f"{name} {value}" for name, value in where.items())])


def document_of(options: BenchOptions, comparisons: Sequence[Comparison], laps: Sequence[Lap]) -> dict[str, Any]:
    """All figures of a benchmark, its options, and where and when it ran; paths and the like become text."""
    return {
        "machine": machine(),
        "options": asdict(options),
        "comparisons": [asdict(comparison) for comparison in comparisons],
        "laps": [asdict(lap) for lap in laps],
    }


def failures(comparisons: Sequence[Comparison]) -> list[str]:
    """One line for each contender with failed runs."""
    return [
        f"{figures.contender}, {comparison.record_size_bytes} bytes, {comparison.folder}: "
        f"{len(figures.failures)} of {counted(figures.runs, 'run')}: {'; '.join(dict.fromkeys(figures.failures))}"
        for comparison in comparisons
        for figures in comparison.figures
        if figures.failures
    ]


def _table(comparison: Comparison, width: int | None) -> Iterator[str]:
    yield f"{comparison.record_size_bytes} bytes, {comparison.folder}"
    yield from table_lines(HEADS, map(_row, comparison.figures), width=width)
    yield from _ratios(comparison)


def _row(figures: Figures) -> tuple[str, ...]:
    rate = figures.records_per_s
    if rate is None:
        return (figures.contender, *[UNKNOWN] * (len(HEADS) - 1))
    latencies = [f"{figures.latency_ms[name]:.1f}" if name in figures.latency_ms else UNKNOWN for name in LATENCIES]
    return (
        figures.contender,
        *(f"{value:,.0f}" for value in (rate.median, rate.low, rate.high)),
        *latencies,
        f"{figures.leader_cpu:.2f}",
        f"{figures.follower_cpu:.2f}",
        f"{figures.cpu_us_per_record:.2f}",
        f"{figures.memory_mib:.0f}",
    )


def _ratios(comparison: Comparison) -> Iterator[str]:
    rate, cpu, memory = comparison.rate_ratio, comparison.cpu_ratio, comparison.memory_ratio
    if rate is None or cpu is None or memory is None:
        return
    who = " / ".join(figures.contender for figures in comparison.figures)
    yield (
        f"{who}: {rate.median:.2f} × the records ({rate.low:.2f} to {rate.high:.2f} × within a turn), "
        f"{cpu:.2f} × the processor time of a record, {memory:.2f} × the memory"
    )
