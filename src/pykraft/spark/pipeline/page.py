"""The page of a pipeline's report: totals, figures, sizes of the tables, leaders; of one run, or of two side by side.

Invariant: what comes from tables or names of folders is escaped, and the page has no external address and no code.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from html import escape
from pathlib import Path
from typing import Final

import pykraft
from pykraft.page import render_page
from pykraft.page.plot_theme import figure_html
from pykraft.spark.pipeline.figures import RunPlot, drawn, shown
from pykraft.spark.pipeline.report import GoldRow, PipelineRun

HERE: Final = Path(__file__).parent
LEADERS_SHOWN_MAX: Final = 100
NUMBER: Final = ' class="number"'
LEADER_HEADS: Final = ("epoch", "leader", "first offset", "last offset", "records", "gap before, ms")


def pipeline_page(runs: Sequence[PipelineRun]) -> str:
    """The page as one HTML document."""
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
