"""The figures of a pipeline's report, for notebooks and programs: matplotlib figures from tables, several runs at once.

Invariant: a figure shows the numbers of its report and nothing else. It belongs to no window and needs no display, so
figures can be made by any thread. They need the extra ``plots``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pyspark.sql import SparkSession

from pykraft.process.extras import imported_for
from pykraft.spark.pipeline.report import PipelineReport, make_report
from pykraft.spark.pipeline.status import TableStatus, pipeline_status
from pykraft.spark.tables.delta import DeltaTables

if TYPE_CHECKING:  # an extra, and slow to import
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineRun:
    """The tables of one run: their report and their sizes, under a name for its panels."""

    name: str
    report: PipelineReport
    tables: dict[str, TableStatus]


def read_run(
    spark: SparkSession, root: Path | str, *, name: str | None = None, replica: str | None = None
) -> PipelineRun:
    """The run whose tables are in this folder, by default named like the folder.

    Errors: UsageError if there are no tables, or no rows of that replica.
    """
    folder = Path(root)
    status = pipeline_status(folder)
    report = make_report(spark, DeltaTables(folder), replica=replica)
    return PipelineRun(name=name or str(root), report=report, tables=status.tables)


def report_figures(*runs: PipelineRun, scheme: Literal["light", "dark"] = "light") -> dict[str, Figure]:
    """Figures by name, each with a panel for each run: throughput, bytes, latency, leadership, lag and sizes.

    A figure is left out if no run has numbers for it. Errors: UsageError without the extra ``plots``.
    """
    with imported_for("a figure"):
        from pykraft.spark.pipeline.plots import drawn, shown
    figures = {}
    for plot in shown(runs):
        with drawn(plot, runs, scheme=scheme) as figure:
            figure.draw_without_rendering()  # ticks take the colors of the scheme when they are made
            figures[plot.name] = figure
    return figures
