"""Renders the result of a benchmark as text: a small table for each folder and record size.

Invariant: an unknown figure is a dash, never a zero. `lab.bench.comparison` computes the figures.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from lab.bench.comparison import Comparison, Figures
from lab.bench.machine import machine
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
