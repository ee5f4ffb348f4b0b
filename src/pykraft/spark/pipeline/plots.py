"""Draws the figures of a pipeline's report: one panel for each run, side by side, or one above the other.

Every axis has a unit; times are seconds since the first record of the run. Invariant: position or text tells everything
that color tells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from pykraft.page.plot_theme import PlotScheme, color, drawing, node_color
from pykraft.spark.pipeline.series import lags, latencies, leaderships, rates

if TYPE_CHECKING:  # it imports pyspark
    from pykraft.spark.pipeline.figures import PipelineRun

SECONDS: Final = "seconds since the first record"
THOUSANDS: Final = FuncFormatter(lambda value, _: f"{value:,.0f}")
PLAIN: Final = FuncFormatter(lambda value, _: f"{value:,g}")
SMALL: Final = 9.5
NAME_LENGTH_MAX: Final = 28
LABELED_SHARE_MIN: Final = 0.16
"""A bar that takes less of the width than this has no room for a label."""
MEGABYTE: Final = 1e6
STYLES: Final = ("-", "--", ":", "-.")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlot:
    """A figure: how it is drawn into the panel of a run, and what a reader must know."""

    name: str
    title: str
    reading: str
    draw: Callable[[Axes, PipelineRun], None]
    shows: Callable[[PipelineRun], bool]
    height_inches: float = 3.0
    is_shared: bool = True
    """Whether the panels have one scale of values."""
    is_from_zero: bool = False
    """Whether this scale begins at 0."""


def draw_throughput(axes: Axes, run: PipelineRun) -> None:
    """Records a second."""
    steps = rates(run.report, "records")
    axes.stairs(steps.values, steps.edges, fill=True, color=color("accent"), alpha=0.25)
    axes.stairs(steps.values, steps.edges, color=color("accent"), linewidth=1.4, baseline=None)
    axes.set_ylabel("records per second")
    axes.yaxis.set_major_formatter(THOUSANDS)
    _over_time(axes)


def draw_bytes(axes: Axes, run: PipelineRun) -> None:
    """Megabytes of values a second."""
    steps = rates(run.report, "size_bytes")
    values = [value / MEGABYTE for value in steps.values]
    axes.stairs(values, steps.edges, fill=True, color=color("tables"), alpha=0.25)
    axes.stairs(values, steps.edges, color=color("tables"), linewidth=1.4, baseline=None)
    axes.set_ylabel("MB per second")
    axes.yaxis.set_major_formatter(PLAIN)
    _over_time(axes)


def draw_latency(axes: Axes, run: PipelineRun) -> None:
    """Percentiles of the time from append to acknowledgement."""
    for name, (times, values) in reversed(latencies(run.report).items()):
        axes.plot(times, values, color=color(name), label="slowest" if name == "max" else name, marker=".", ms=2.5)
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(PLAIN)
    axes.set_ylabel("ms, log scale")
    _over_time(axes)


def draw_leadership(axes: Axes, run: PipelineRun) -> None:
    """A lane for each node: when it led, and in which epoch."""
    found = leaderships(run.report)
    nodes = sorted({each.leader_id for each in found})
    end_s = max((each.end_s for each in found), default=0.0) or 1.0
    for each in found:
        lane, length_s = nodes.index(each.leader_id), max(each.end_s - each.begin_s, 0.002 * end_s)
        axes.barh(lane, length_s, left=each.begin_s, height=0.62, color=node_color(each.leader_id))
        if length_s > LABELED_SHARE_MIN * end_s:
            middle_s = each.begin_s + length_s / 2
            label = f"epoch {each.epoch}"
            axes.text(middle_s, lane, label, ha="center", va="center", color=color("on-node"), fontweight="bold")
    axes.set_ylim(len(nodes) - 0.4, -0.6)
    axes.set_yticks(range(len(nodes)), [f"node {node}" for node in nodes])
    axes.grid(visible=False, axis="y")
    axes.set_xlim(0, end_s)
    _over_time(axes)


def draw_lag(axes: Axes, run: PipelineRun) -> None:
    """How many records each replica was behind the longest log."""
    for node, (times, values) in lags(run.report).items():
        style = STYLES[(node - 1) % len(STYLES)]
        axes.plot(times, values, color=node_color(node), label=f"node {node}", linestyle=style)
    axes.set_yscale("symlog", linthresh=10)
    axes.yaxis.set_major_formatter(THOUSANDS)
    axes.set_ylabel("records, log scale")
    _over_time(axes)


def draw_sizes(axes: Axes, run: PipelineRun) -> None:
    """Megabytes of each table."""
    names = list(run.tables)
    sizes = [run.tables[name].size_bytes / MEGABYTE for name in names]
    axes.barh(range(len(names)), sizes, height=0.6, color=color("tables"))
    axes.set_yticks(range(len(names)), [name.replace("_", " ") for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("MB")
    axes.xaxis.set_major_locator(MaxNLocator(nbins=4, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(PLAIN)


PLOTS: Final = (
    RunPlot(
        name="throughput",
        title="Throughput",
        reading="Records that were appended, by their timestamps.",
        draw=draw_throughput,
        is_from_zero=True,
        shows=lambda run: bool(run.report.throughput),
    ),
    RunPlot(
        name="bytes",
        title="Throughput in bytes",
        reading="Bytes of the values of these records.",
        draw=draw_bytes,
        is_from_zero=True,
        shows=lambda run: bool(run.report.throughput),
    ),
    RunPlot(
        name="latency",
        title="Latency",
        reading="Percentiles of the time from append to acknowledgement. Each point is the worst of its time.",
        draw=draw_latency,
        shows=lambda run: bool(run.report.commit_latency),
    ),
    RunPlot(
        name="leadership",
        title="Who led when",
        reading="A lane for each node that led; a bar lasts until the next leader began.",
        draw=draw_leadership,
        shows=lambda run: bool(run.report.epochs),
        height_inches=2.4,
        is_shared=False,
    ),
    RunPlot(
        name="lag",
        title="Lag of the replicas",
        reading="Records behind the longest log. Each point is the worst of its time.",
        draw=draw_lag,
        is_from_zero=True,
        shows=lambda run: bool(run.report.replica_lag),
    ),
    RunPlot(
        name="sizes",
        title="Size of the tables",
        reading="Bytes in the files of each table.",
        draw=draw_sizes,
        shows=lambda run: bool(run.tables),
        height_inches=2.4,
    ),
)
"""The figures, in the order of the page."""


def shown(runs: Sequence[PipelineRun]) -> Iterator[RunPlot]:
    """The figures that at least one of the runs has numbers for."""
    return (plot for plot in PLOTS if any(map(plot.shows, runs)))


@contextmanager
def drawn(
    plot: RunPlot, runs: Sequence[PipelineRun], *, is_narrow: bool = False, scheme: PlotScheme | None = None
) -> Iterator[Figure]:
    """The figure with a panel for each run; a run without these numbers says so."""
    height_inches = plot.height_inches * (len(runs) if is_narrow else 1)
    name = f"{plot.name}-{is_narrow}"
    with drawing(name, height_inches=height_inches, is_narrow=is_narrow, scheme=scheme) as figure:
        shape = (len(runs), 1) if is_narrow else (1, len(runs))
        panels = figure.subplots(*shape, sharey="all" if plot.is_shared else "none", squeeze=False)
        for axes, run in zip(panels.flat, runs, strict=True):
            if plot.shows(run):
                plot.draw(axes, run)
            else:
                axes.text(0.5, 0.5, "not measured", transform=axes.transAxes, ha="center", color=color("soft"))
                axes.set_axis_off()
            if len(runs) > 1:
                axes.set_title(_short(run.name), fontsize=SMALL, loc="left", color=color("ink"))
            if axes is not panels.flat[0] and not is_narrow and plot.is_shared:
                axes.set_ylabel("")
        if plot.is_from_zero:  # not before all panels are drawn: then the scale would no longer grow with them
            for axes in panels.flat:
                axes.autoscale_view()
                axes.set_ylim(bottom=0)
        _legend(figure, panels.flat)
        yield figure


def _short(name: str) -> str:
    return name if len(name) <= NAME_LENGTH_MAX else f"…{name[1 - NAME_LENGTH_MAX :]}"


def _over_time(axes: Axes) -> None:
    axes.set_xlabel(SECONDS)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(PLAIN)


def _legend(figure: Figure, panels: Sequence[Axes]) -> None:
    """One legend for all panels, above them."""
    found: dict[str, Any] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    if found:
        figure.legend(found.values(), found.keys(), loc="outside upper left", ncols=min(4, len(found)), fontsize=SMALL)
