"""What the figures of a report show, as plain numbers: cut into at most `SLICES_MAX` slices, however long the run was.

Times are seconds since the first record. Invariant: a slice never hides the worst: of latencies and lags it has the
largest, of records and bytes the rate over all of its time, also where nothing was written.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:  # it imports pyspark
    from pykraft.spark.pipeline.report import PipelineReport

SLICES_MAX: Final = 240
SPELLS_MAX: Final = 400
PERCENTILES: Final = {"p50": "p50_ms", "p99": "p99_ms", "max": "max_ms"}
"""Names of the theme's colors, and the columns of gold's commit latency."""

GoldRow = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Values that hold from each edge to the next one."""

    edges: list[float]
    values: list[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Leadership:
    """One leader in one epoch."""

    leader_id: int
    epoch: int
    begin_s: float
    end_s: float


def origin_of(report: PipelineReport) -> datetime:
    """The moment that is 0 s. Without any record it does not matter which."""
    moments = [row["begin"] for row in report.throughput[:1]] + [row["begun"] for row in report.epochs[:1]]
    return min(moments, default=datetime.min)  # noqa: DTZ901 - it has no zone, as what Spark returns


def rates(report: PipelineReport, column: str) -> Steps:
    """Of ``records`` or ``size_bytes``: how many a second."""
    rows = report.throughput
    if not rows:
        return Steps(edges=[0.0], values=[])
    origin = origin_of(report)
    width_s = _width_s(rows)
    begins_s = [_seconds(row["begin"], origin) for row in rows]
    first_s = begins_s[0]
    count = round((begins_s[-1] - first_s) / width_s) + 1
    slice_s = width_s * math.ceil(count / SLICES_MAX)
    slices = math.ceil(count * width_s / slice_s)
    sums = [0.0] * slices
    for begin_s, row in zip(begins_s, rows, strict=True):
        sums[min(slices - 1, int((begin_s - first_s) / slice_s))] += row[column]
    edges = [first_s + place * slice_s for place in range(slices)] + [first_s + count * width_s]
    return Steps(
        edges=edges, values=[each / (end - one) for each, (one, end) in zip(sums, pairwise(edges), strict=True)]
    )


def latencies(report: PipelineReport) -> dict[str, tuple[list[float], list[float]]]:
    """Percentiles of the time from append to acknowledgement in ms, over time."""
    points = {
        name: [(row["begin"], row[column]) for row in report.commit_latency] for name, column in PERCENTILES.items()
    }
    return {name: _highest(values, origin_of(report)) for name, values in points.items()}


def lags(report: PipelineReport) -> dict[int, tuple[list[float], list[float]]]:
    """Records that each replica was behind, over time."""
    points: dict[int, list[tuple[datetime, float]]] = {}
    for row in report.replica_lag:
        if row["lag"] is not None:
            points.setdefault(row["node"], []).append((row["at"], row["lag"]))
    return {node: _highest(points[node], origin_of(report)) for node in sorted(points)}


def leaderships(report: PipelineReport) -> list[Leadership]:
    """Who led when; of very many epochs the last ones. A leader leads until the next one begins."""
    origin = origin_of(report)
    rows = report.epochs[-SPELLS_MAX:]
    ends = [row["begun"] for row in rows[1:]] + [row["ended"] for row in rows[-1:]]
    return [
        Leadership(
            leader_id=row["leader_id"],
            epoch=row["epoch"],
            begin_s=_seconds(row["begun"], origin),
            end_s=_seconds(max(row["ended"], row["begun"]) if end is row["ended"] else end, origin),
        )
        for row, end in zip(rows, ends, strict=True)
    ]


def _highest(points: Sequence[tuple[datetime, float]], origin: datetime) -> tuple[list[float], list[float]]:
    """The highest value in each slice, at its time."""
    if not points:
        return [], []
    ordered = sorted(points)
    first = ordered[0][0]
    slice_s = max(1e-3, (ordered[-1][0] - first).total_seconds() / SLICES_MAX)
    best: dict[int, tuple[datetime, float]] = {}
    for at, value in ordered:
        place = min(SLICES_MAX - 1, int((at - first).total_seconds() / slice_s))
        if place not in best or value > best[place][1]:
            best[place] = at, value
    return [_seconds(at, origin) for at, _ in best.values()], [value for _, value in best.values()]


def _width_s(rows: Sequence[GoldRow]) -> float:
    """Length of gold's intervals: the least distance between two of them, one second if there is only one."""
    begins = [row["begin"] for row in rows]
    apart = min((later - one for one, later in pairwise(begins)), default=timedelta(seconds=1))
    return max(1e-3, apart.total_seconds())


def _seconds(moment: datetime, origin: datetime) -> float:
    return (moment - origin).total_seconds()
