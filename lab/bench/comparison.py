"""Computes the median and spread of the laps for each folder and record size, and their ratios.

A lap is one run of one contender; in a turn each contender runs once. Invariant: a ratio of one turn compares two runs
that followed each other. The result is the ratio of the medians; the smallest and largest ratio of a turn show how far
to trust it. A failed run has no rate, and its turn has no ratio.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from lab.bench.measure import Run
from lab.bench.race import Lap


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Minimum, median and maximum of some figures."""

    low: float
    median: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """The spread of at least one value."""
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
    """The ratio of each turn in which both have a rate."""
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
