"""Draws a group of cases: bars with their spreads, or two percentiles on one line.

Every row has a name and its value in words, so position or text tells everything that color tells.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from lab.bench.comparison import Spread
from lab.benchmarks.suite.summary import CaseSummary
from pykraft.page.plot_theme import color

SPACE: Final = "\u00a0"
COLORS: Final = {
    "pykraft": "node-0",
    "pykraft-json": "node-2",
    "pykraft-tls": "node-3",
    "kafka": "node-1",
    "kafka-tls": "node-4",
    "hashicorp": "node-2",
    "dragonboat": "node-3",
    "etcd": "node-4",
    "pysyncobj": "node-5",
    "rqlite": "node-3",
    "appenders": "soft",
    "recovery": "node-0",
    "verify": "node-3",
    "crc": "soft",
}
ROW_INCHES: Final = 0.25
FRAME_INCHES: Final = 0.85
SMALL: Final = 9.0
ROOM: Final = 0.42
"""Share of the width to the right of the longest bar, for its value in words."""


def words_of(value: float) -> str:
    """Three digits, or all of a larger number."""
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:,.{digits}f}" if value >= 1 else f"{value:.3g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A line of a plot: the head of a case without values, or a contender."""

    name: str
    contender: str | None = None
    spreads: tuple[Spread | None, ...] = ()


def rows_of(found: Sequence[CaseSummary], figures: Sequence[str]) -> list[Row]:
    """A head for each case, and a row for each contender that has one of the figures.

    Without heads if there is one case; if there is one contender, its rows have the names of the cases.
    """
    rows: list[Row] = []
    is_alone = len({name for each in found for name in each.contenders}) == 1
    for each in found:
        names = [name for name in each.contenders if any(each.spread(name, figure) for figure in figures)]
        if names and len(found) > 1 and not is_alone:
            rows.append(Row(name=each.case.label))
        rows += [
            Row(
                name=each.case.label if is_alone else name,
                contender=name,
                spreads=tuple(each.spread(name, figure) for figure in figures),
            )
            for name in names
        ]
    return rows


def height_inches(rows: Sequence[Row]) -> float:
    return FRAME_INCHES + ROW_INCHES * len(rows)


def draw_bars(figure: Figure, rows: Sequence[Row], *, unit: str, suffix: str, is_log: bool) -> None:
    """A bar for the median, a line from least to most."""
    axes = figure.subplots()
    spreads = [row.spreads[0] for row in rows if row.spreads and row.spreads[0] is not None]
    left = _frame(axes, rows, [each.high for each in spreads], [each.low for each in spreads], unit, is_log=is_log)
    for place, row in enumerate(rows):
        if row.contender is None or (spread := row.spreads[0]) is None:
            continue
        axes.barh(place, spread.median - left, left=left, height=0.62, color=color(COLORS[row.contender]), alpha=0.85)
        axes.plot([spread.low, spread.high], [place, place], color=color("ink"), linewidth=1)
        _say(axes, spread.high, place, words_of(spread.median) + suffix)


def draw_percentiles(figure: Figure, rows: Sequence[Row], *, unit: str, names: tuple[str, str], suffix: str) -> None:
    """A dot for the first figure and a bar-like mark for the second, on a scale of powers of ten."""
    axes = figure.subplots()
    medians = [[spread.median for spread in row.spreads if spread is not None] for row in rows]
    every = [value for values in medians for value in values]
    _frame(axes, rows, every, every, unit, is_log=True)
    for place, (row, values) in enumerate(zip(rows, medians, strict=True)):
        if row.contender is None or not values:
            continue
        shade = color(COLORS[row.contender])
        axes.plot([values[0], values[-1]], [place, place], color=shade, linewidth=1.2)
        if len(values) == len(names):  # Kafka reports no median
            axes.plot(values[0], place, "o", ms=6, color=shade)
        axes.plot(values[-1], place, "|", ms=11, markeredgewidth=2.4, color=shade)
        _say(axes, values[-1], place, " / ".join(map(words_of, values)) + suffix)
    axes.set_xlabel(f"{unit}: ● {names[0]}, ┃ {names[1]}")


def _frame(
    axes: Axes, rows: Sequence[Row], highs: Sequence[float], lows: Sequence[float], unit: str, *, is_log: bool
) -> float:
    """Axes, names and heads; returns where bars begin."""
    most, least = max(highs), min(lows)
    if is_log:
        left = least / 2
        axes.set_xscale("log")
        axes.set_xlim(left, left * (most / left) ** (1 / (1 - ROOM)))
        axes.xaxis.set_major_locator(LogLocator())
        axes.xaxis.set_minor_locator(NullLocator())
    else:
        left = 0.0
        axes.set_xlim(0, most / (1 - ROOM))
        axes.locator_params(axis="x", nbins=5)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}"))
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_yticks(
        [place for place, row in enumerate(rows) if row.contender], [row.name for row in rows if row.contender]
    )
    axes.tick_params(axis="y", length=0, labelsize=SMALL)
    axes.grid(visible=False, axis="y")
    for place, row in enumerate(rows):
        if row.contender is None:
            axes.text(0, place + 0.12, row.name, transform=axes.get_yaxis_transform(), va="center", fontweight="bold")
    axes.set_xlabel(unit)
    return left


def _say(axes: Axes, right: float, place: int, words: str) -> None:
    axes.text(right, place, SPACE * 2 + words, va="center", ha="left", fontsize=SMALL)


Draw = Callable[[Figure, Sequence[Row]], None]
