"""Renders the results as one self-contained page: a plot for each figure of interest of each group.

Invariant: what comes from a run is escaped, and the page has no external address and no code.

Source: Content Security Policy Level 3 (W3C).
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from html import escape
from pathlib import Path
from typing import Final

from matplotlib.figure import Figure

import pykraft
from lab.benchmarks.suite.plots import Draw, Row, draw_bars, draw_percentiles, height_inches, rows_of
from lab.benchmarks.suite.results import Results
from lab.benchmarks.suite.summary import CaseSummary
from lab.benchmarks.suite.tables import TITLES, notes, setting
from pykraft.page import render_page
from pykraft.page.plot_theme import drawing, figure_html

FOLDER: Final = Path(__file__).parent
COMMAND: Final = """\
python -m lab.benchmarks.suite run --cases all --results results.jsonl
python -m lab.benchmarks.suite page results.jsonl page.html"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """A picture: of which group, what of it and in which figures, and how to read it."""

    group: str
    what: str
    figures: tuple[str, ...]
    reading: str
    draw: Draw


def _rate(*, is_log: bool) -> Draw:
    return partial(draw_bars, unit="operations per second" + ", log scale" * is_log, suffix="/s", is_log=is_log)


PERCENTILES: Final = partial(draw_percentiles, unit="ms, log scale", names=("p50", "p99"), suffix=" ms")
CPU: Final = partial(draw_bars, unit="µs of processor time an operation, log scale", suffix=" µs", is_log=True)
MEMORY: Final = partial(draw_bars, unit="MiB, largest process, log scale", suffix=" MiB", is_log=True)
SPREAD: Final = "A bar is the median of the runs, the thin line goes from the least to the most."
FIXED: Final = "Dots are medians of p50, strokes of p99."
PLOTS: Final = (
    Plot(group="record-size", what="throughput", figures=("rate",), reading=SPREAD, draw=_rate(is_log=True)),
    Plot(
        group="record-size",
        what="processor time",
        figures=("cpu_us",),
        reading="Processor time of all nodes.",
        draw=CPU,
    ),
    Plot(
        group="record-size",
        what="memory",
        figures=("memory_mib",),
        reading="Highest resident size of a node.",
        draw=MEMORY,
    ),
    Plot(group="record-size-memory", what="throughput", figures=("rate",), reading=SPREAD, draw=_rate(is_log=True)),
    Plot(group="tls", what="throughput", figures=("rate",), reading=SPREAD, draw=_rate(is_log=True)),
    Plot(group="tls-latency", what="", figures=("p50_ms", "p99_ms"), reading=FIXED, draw=PERCENTILES),
    Plot(group="voters", what="throughput", figures=("rate",), reading=SPREAD, draw=_rate(is_log=False)),
    Plot(
        group="single",
        what="throughput",
        figures=("rate",),
        reading=f"Each caller has one value under way. {SPREAD}",
        draw=_rate(is_log=True),
    ),
    Plot(group="single", what="latency", figures=("p50_ms", "p99_ms"), reading=FIXED, draw=PERCENTILES),
    Plot(
        group="single", what="processor time", figures=("cpu_us",), reading="Processor time of all processes.", draw=CPU
    ),
    Plot(group="latency", what="", figures=("p50_ms", "p99_ms"), reading=FIXED, draw=PERCENTILES),
    Plot(group="observers", what="latency", figures=("p50_ms", "p99_ms"), reading=FIXED, draw=PERCENTILES),
    Plot(group="log-size", what="latency", figures=("p50_ms", "p99_ms"), reading=FIXED, draw=PERCENTILES),
    Plot(group="execute", what="throughput", figures=("rate",), reading=SPREAD, draw=_rate(is_log=True)),
    Plot(group="execute", what="latency", figures=("p50_ms", "p99_ms"), reading=FIXED, draw=PERCENTILES),
    Plot(group="execute-follower", what="throughput", figures=("rate",), reading=SPREAD, draw=_rate(is_log=True)),
    Plot(group="read-follower", what="latency", figures=("p50_ms", "p99_ms"), reading=FIXED, draw=PERCENTILES),
    Plot(
        group="failover",
        what="",
        figures=("p50_ms", "worst_ms"),
        reading="From the signal to the next acknowledged record; dots are medians, strokes the worst.",
        draw=partial(draw_percentiles, unit="ms, log scale", names=("median", "worst"), suffix=" ms"),
    ),
    Plot(
        group="start",
        what="",
        figures=("start_ms",),
        reading=SPREAD,
        draw=partial(draw_bars, unit="ms", suffix=" ms", is_log=False),
    ),
    Plot(
        group="recovery",
        what="",
        figures=("mb_per_s",),
        reading=f"Crc only reads and sums. {SPREAD}",
        draw=partial(draw_bars, unit="MB/s, log scale", suffix=" MB/s", is_log=True),
    ),
)


def render(found: Sequence[CaseSummary], results: Results) -> str:
    """The page as text; a plot without data is left out."""
    told = "".join(f"<li>{escape(note)}</li>" for note in notes(found, results))
    parts = {
        "title": "pykraft: how fast it is",
        "setting": escape(setting(results)),
        "notes": f'<ul class="notes">{told}</ul>' if told else "",
        "figures": "\n".join(_figures(found)),
        "command": escape(COMMAND),
        "version": escape(pykraft.__version__),
    }
    return render_page(FOLDER, parts)


def _figures(found: Sequence[CaseSummary]) -> Iterator[str]:
    for number, plot in enumerate(PLOTS):
        rows = rows_of([each for each in found if each.case.group == plot.group], plot.figures)
        if rows:
            yield _figure(f"plot-{number}", plot, rows)


def _figure(name: str, plot: Plot, rows: Sequence[Row]) -> str:
    title = f"{TITLES[plot.group]}: {plot.what}" if plot.what else TITLES[plot.group]

    @contextmanager
    def drawn(*, is_narrow: bool) -> Iterator[Figure]:
        with drawing(f"{name}-{is_narrow}", height_inches=height_inches(rows), is_narrow=is_narrow) as figure:
            plot.draw(figure, rows)
            yield figure

    return figure_html(name, title=title, reading=plot.reading, drawn=drawn)
