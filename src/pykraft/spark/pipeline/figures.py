"""The figures of a pipeline's report, for pages and notebooks, and its page: of one run, or of several side by side.

Times are seconds since the first record of the run, which is cut into at most `SLICES_MAX` slices. Invariant: a slice
has the rate over all of its time.
Position or text tells everything that color tells. Figures belong to no window, so any thread can make them. On the
page, what comes from tables or names of folders is escaped. This module needs the extra ``plots``.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pykraft
from pykraft.page import render_page
from pykraft.process.extras import imported_for
from pykraft.spark.pipeline.report import GoldRow, PipelineReport, PipelineRun, read_run

with imported_for("a figure"):
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from pykraft.page.plot_theme import (
        PLAIN,
        THOUSANDS,
        PlotScheme,
        color,
        draw_rates,
        drawing,
        figure_html,
        node_color,
        number_axis,
    )

__all__ = ["PipelineRun", "read_run", "report_figures"]

SECONDS: Final = "seconds since the first record"
SMALL: Final = 9.5
NAME_LENGTH_MAX: Final = 28
LABELED_SHARE_MIN: Final = 0.16
"""A bar that takes less of the width than this has no room for a label."""
MEGABYTE: Final = 1e6
SLICES_MAX: Final = 240
SPELLS_MAX: Final = 400


HERE: Final = Path(__file__).parent
LEADERS_SHOWN_MAX: Final = 100
NUMBER: Final = ' class="number"'
LEADER_HEADS: Final = ("epoch", "leader", "first offset", "last offset", "records", "gap before, ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlot:
    """A figure: how it is drawn into the panel of a run, and what a reader must know."""

    name: str
    title: str
    reading: str
    draw: Callable[[Axes, PipelineRun], None]
    shows: Callable[[PipelineRun], bool]
    height_inches: float = 3.0
    across: tuple[str, int] = (SECONDS, 5)
    """What the horizontal axis shows, and its ticks."""
    is_shared: bool = True
    """Whether the panels have one scale of values."""
    is_from_zero: bool = False
    """Whether this scale begins at 0."""


def report_figures(*runs: PipelineRun, scheme: PlotScheme = "light") -> dict[str, Figure]:
    """Figures by name, each with a panel for each run: throughput, bytes, leadership and sizes.

    A figure is left out if no run has numbers for it.
    """
    figures = {}
    for plot in shown(runs):
        with drawn(plot, runs, scheme=scheme) as figure:
            figure.draw_without_rendering()  # ticks take the colors of the scheme when they are made
            figures[plot.name] = figure
    return figures


def shown(runs: Sequence[PipelineRun]) -> Iterator[RunPlot]:
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
                number_axis(axes, plot.across[0], ticks=plot.across[1])
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


def _legend(figure: Figure, panels: Sequence[Axes]) -> None:
    found: dict[str, Any] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    if found:
        figure.legend(found.values(), found.keys(), loc="outside upper left", ncols=min(4, len(found)), fontsize=SMALL)


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


def _width_s(rows: Sequence[GoldRow]) -> float:
    """Length of gold's intervals: the least distance between two of them, one second if there is only one."""
    begins = [row["begin"] for row in rows]
    apart = min((later - one for one, later in pairwise(begins)), default=timedelta(seconds=1))
    return max(1e-3, apart.total_seconds())


def _seconds(moment: datetime, origin: datetime) -> float:
    return (moment - origin).total_seconds()


def _draw_rate(axes: Axes, run: PipelineRun, *, column: str, name: str, unit: str, of: float = 1.0) -> None:
    steps = rates(run.report, column)
    draw_rates(axes, steps.edges, [value / of for value in steps.values], name=name, unit=unit)
    axes.yaxis.set_major_formatter(THOUSANDS if of == 1.0 else PLAIN)


def _draw_leadership(axes: Axes, run: PipelineRun) -> None:
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


def _draw_sizes(axes: Axes, run: PipelineRun) -> None:
    names = list(run.tables)
    sizes = [run.tables[name].size_bytes / MEGABYTE for name in names]
    axes.barh(range(len(names)), sizes, height=0.6, color=color("tables"))
    axes.set_yticks(range(len(names)), [name.replace("_", " ") for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")


PLOTS: Final = (
    RunPlot(
        name="throughput",
        title="Throughput",
        reading="Records that were appended, by their timestamps.",
        draw=partial(_draw_rate, column="records", name="accent", unit="records per second"),
        is_from_zero=True,
        shows=lambda run: bool(run.report.throughput),
    ),
    RunPlot(
        name="bytes",
        title="Throughput in bytes",
        reading="Bytes of the values of these records.",
        draw=partial(_draw_rate, column="size_bytes", name="tables", unit="MB per second", of=MEGABYTE),
        is_from_zero=True,
        shows=lambda run: bool(run.report.throughput),
    ),
    RunPlot(
        name="leadership",
        title="Who led when",
        reading="A lane for each node that led; a bar lasts until the next leader began.",
        draw=_draw_leadership,
        shows=lambda run: bool(run.report.epochs),
        height_inches=2.4,
        is_shared=False,
    ),
    RunPlot(
        name="sizes",
        title="Size of the tables",
        reading="Bytes in the files of each table.",
        draw=_draw_sizes,
        shows=lambda run: bool(run.tables),
        height_inches=2.4,
        across=("MB", 4),
    ),
)
"""The figures, in the order of the page."""


def pipeline_page(runs: Sequence[PipelineRun]) -> str:
    parts = {
        "title": escape("Pipeline: " + " beside ".join(run.name for run in runs)),
        "heading": " <small>beside</small> ".join(escape(run.name) for run in runs),
        "totals": _totals(runs),
        "figures": "\n".join(_figure(plot, runs) for plot in shown(runs)),
        "tables": "\n".join(_tables(runs)),
        "leaders": "\n".join(_leaders(runs)),
        "version": escape(pykraft.__version__),
    }
    return render_page(HERE, parts)


def _totals(runs: Sequence[PipelineRun]) -> str:
    rows = (
        ("log of replica", [run.report.replica or "the live quorum" for run in runs]),
        ("records", [f"{run.report.records:,}" for run in runs]),
        ("control records", [f"{run.report.control_records:,}" for run in runs]),
        ("bytes of values", [f"{run.report.size_bytes:,}" for run in runs]),
        ("offsets", [f"{run.report.first_offset} to {run.report.last_offset}" for run in runs]),
        ("epochs with a leader", [f"{len(run.report.epochs):,}" for run in runs]),
        ("damaged places", [f"{run.report.corrupt:,}" for run in runs]),
        ("seconds with records", [f"{len(run.report.throughput):,}" for run in runs]),
        ("records per second with records", [f"{_pace(run):,.0f}" for run in runs]),
    )
    heads = ["", *(run.name for run in runs)]
    return _table("totals", heads, ([name, *cells] for name, cells in rows))


def _pace(run: PipelineRun) -> float:
    return run.report.records / max(1, len(run.report.throughput))


def _figure(plot: RunPlot, runs: Sequence[PipelineRun]) -> str:
    return figure_html(plot.name, title=plot.title, reading=plot.reading, drawn=partial(drawn, plot, runs))


def _tables(runs: Sequence[PipelineRun]) -> Iterator[str]:
    for run in runs:
        rows = (
            [name, f"{one.rows:,}", f"{one.files:,}", f"{one.size_bytes:,}"] for name, one in sorted(run.tables.items())
        )
        yield from _named(run, runs)
        yield _table(f"tables of {run.name}", ["table", "rows", "files", "bytes"], rows)


def _leaders(runs: Sequence[PipelineRun]) -> Iterator[str]:
    for run in runs:
        yield from _named(run, runs)
        epochs = run.report.epochs
        cells = map(_leader, epochs[-LEADERS_SHOWN_MAX:])
        yield _table(f"leaders of {run.name}", LEADER_HEADS, cells)
        if len(epochs) > LEADERS_SHOWN_MAX:
            yield f"<p>These are the last {LEADERS_SHOWN_MAX} of {len(epochs):,} epochs.</p>"


def _leader(row: GoldRow) -> list[str]:
    named = [str(row[key]) for key in ("epoch", "leader_id", "first_offset", "last_offset")]
    return [*named, f"{row['records']:,}", "" if row["gap_ms"] is None else f"{row['gap_ms']:,}"]


def _named(run: PipelineRun, runs: Sequence[PipelineRun]) -> Iterator[str]:
    if len(runs) > 1:
        yield f"<h3>{escape(run.name)}</h3>"


def _table(label: str, heads: Sequence[str], rows: Iterator[list[str]]) -> str:
    first, *others = heads
    head = f"<th>{escape(first)}</th>" + "".join(f"<th{NUMBER}>{escape(each)}</th>" for each in others)
    body = "\n".join(
        f"<tr><td>{escape(name)}</td>{''.join(f'<td{NUMBER}>{escape(cell)}</td>' for cell in cells)}</tr>"
        for name, *cells in rows
    )
    return (
        f'<div class="scrolls" tabindex="0" role="region" aria-label="{escape(label)}"><table>'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>"
    )
