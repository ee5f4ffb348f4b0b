"""Draws the pictures of a report: each function draws a story into a figure.

Every axis has a unit; times are in seconds since the load began (around a fail-over: in ms since the kill). Invariant:
position or text tells everything that color tells.
"""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from lab.demo.report.series import (
    SHARES,
    Gap,
    Spell,
    TimeSlice,
    acknowledged_ends,
    lags,
    load_s,
    slices,
    span_s,
    spells,
    table_ends,
)
from lab.demo.story import Story
from pykraft.page.plot_theme import color, node_color

SECONDS = "seconds since the load began"
THOUSANDS = FuncFormatter(lambda value, _: f"{value:,.0f}")
SPACE = "\u00a0"
"""Browsers keep it at the ends of a text, unlike other spaces."""
PLAIN = FuncFormatter(lambda value, _: f"{value:,g}")
LABELED_SHARE_MIN = 0.09
"""A bar that takes less of the width than this has no room for a label."""
FADED = 0.16
SMALL = 9.5
LETTERS_PER_INCH = 11
LETTERS_PER_HANDLE = 6
"""Width of a legend's handle, in letters."""


def draw_throughput(figure: Figure, story: Story) -> None:
    """Acknowledged records per second, against the requested rate."""
    axes = figure.subplots()
    cut = slices(story)
    edges = [*(each.begin_s for each in cut), cut[-1].end_s]
    heights = [each.records_per_s for each in cut]
    axes.stairs(heights, edges, fill=True, color=color("accent"), alpha=0.25)
    axes.stairs(heights, edges, color=color("accent"), label="acknowledged", linewidth=1.4, baseline=None)
    axes.axhline(story.options.throughput, color=color("soft"), linestyle="--", linewidth=1, label="asked for")
    axes.set_ylim(0, 1.15 * max(story.options.throughput, *heights))
    axes.set_ylabel("records per second")
    axes.yaxis.set_major_formatter(THOUSANDS)
    _over_time(axes, story)
    _legend(axes)


def draw_latency(figure: Figure, story: Story) -> None:
    """Percentiles of the time from append to commit."""
    axes = figure.subplots()
    cut = slices(story)
    for name in reversed(SHARES):
        values = [each.latency_ms[name] if each.latency_ms else float("nan") for each in cut]
        _steps(axes, cut, values, color_name=name, label="slowest" if name == "max" else name)
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(PLAIN)
    axes.set_ylabel("ms, log scale")
    _over_time(axes, story)
    _legend(axes)


def draw_tables(figure: Figure, story: Story) -> None:
    """The ends of log and tables, and how long records waited for their table."""
    far, wait = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    log, tables = acknowledged_ends(story), table_ends(story)
    far.plot(*_columns([(0.0, 0), *log]), color=color("accent"), label="acknowledged by the quorum")
    far.step(
        *_columns([(0.0, 0), *tables]), where="post", color=color("tables"), label="in the tables", marker=".", ms=5
    )
    far.set_ylim(bottom=0)
    far.set_ylabel("records")
    far.yaxis.set_major_formatter(THOUSANDS)
    cut = slices(story)
    for name, style in (("max", ":"), ("p50", "-")):
        values = [each.wait_ms[name] / 1_000 if each.wait_ms else float("nan") for each in cut]
        _steps(wait, cut, values, color_name="tables", label="slowest" if name == "max" else name, style=style)
    wait.set_ylim(bottom=0)
    wait.set_ylabel("wait, seconds")
    for axes in (far, wait):
        _over_time(axes, story, end_s=1.01 * span_s(story))
        _legend(axes)
    far.set_xlabel("")


def draw_leadership(figure: Figure, story: Story) -> None:
    """A lane for each node: when it led, in which epoch, and when it was down."""
    axes = figure.subplots()
    end_s = load_s(story)
    lanes = range(1, story.options.nodes + 1)
    for node_id in lanes:
        axes.barh(node_id, end_s, height=0.1, color=color("grid"))
    for kill in story.kills:
        begin_s = story.seconds_since_begin(kill.killed_wall_ms)
        until_s = end_s if kill.restarted_wall_ms is None else story.seconds_since_begin(kill.restarted_wall_ms)
        axes.barh(
            kill.node_id,
            until_s - begin_s,
            left=begin_s,
            height=0.5,
            color="none",
            edgecolor=color("bad"),
            hatch="////",
        )
        _mark_down(axes, kill.node_id, begin_s, until_s, end_s)
    for spell in spells(story):
        _draw_spell(axes, spell, end_s)
    axes.set_ylim(story.options.nodes + 0.6, 0.4)
    axes.set_yticks(list(lanes), [f"node {node_id}" for node_id in lanes])
    axes.grid(visible=False, axis="y")
    axes.set_xlim(0, end_s)
    axes.set_xlabel(SECONDS)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=8, steps=[1, 2, 5, 10]))


def _mark_down(axes: Axes, node_id: int, begin_s: float, until_s: float, end_s: float) -> None:
    """Above the hatched bar, toward the side that has more room, so that it also fits on a narrow screen."""
    is_late = begin_s + until_s > end_s
    axes.text(
        until_s if is_late else begin_s,
        node_id - 0.34,
        f"killed with -9 at {begin_s:,.1f} s",
        ha="right" if is_late else "left",
        va="bottom",
        color=color("bad"),
        fontsize=SMALL,
    )


def _draw_spell(axes: Axes, spell: Spell, end_s: float) -> None:
    length_s = max(0.0, min(spell.end_s, end_s) - spell.begin_s)
    axes.barh(spell.node_id, length_s, left=spell.begin_s, height=0.62, color=node_color(spell.node_id))
    has_room = length_s > LABELED_SHARE_MIN * end_s * 2
    axes.text(
        spell.begin_s + length_s / 2,
        spell.node_id,
        f"leads epoch {spell.epoch}" if has_room else str(spell.epoch),
        ha="center",
        va="center",
        color=color("on-node"),
        fontweight="bold",
        clip_on=True,
    )


def draw_gap(figure: Figure, found: Gap) -> None:
    """The time around a kill: its phases, and the acknowledgements."""
    parts, marks = figure.subplots(2, 1, sharex=True, height_ratios=(2, 3))
    failover_ms = found.kill.failover_ms
    rows = (
        ("electing", 0, found.elected_ms, "bad"),
        ("committing", found.elected_ms, failover_ms, "accent"),
        ("in all", 0, failover_ms, "ink"),
    )
    for number, (_, begin_ms, end_ms, name) in enumerate(rows):
        parts.barh(number, end_ms - begin_ms, left=begin_ms, height=0.5, color=color(name))
        parts.text(end_ms, number, f"{SPACE}{end_ms - begin_ms:,} ms", va="center", ha="left", fontweight="bold")
    parts.set_ylim(2.6, -0.6)
    parts.set_yticks(range(len(rows)), [title for title, *_ in rows])
    parts.grid(visible=False, axis="y")
    parts.tick_params(axis="both", length=0, labelbottom=False)
    for node_id in dict.fromkeys(node_id for _, _, node_id in found.marks):
        own = [(at_ms, total) for at_ms, total, by in found.marks if by == node_id]
        marks.plot(
            *_columns(own), ".", ms=4, color=node_color(node_id), label=f"acknowledged by node {node_id}", zorder=3
        )
    marks.step(*_columns([mark[:2] for mark in found.marks]), where="post", color=color("soft"), linewidth=0.8)
    marks.set_ylim(bottom=0)
    marks.yaxis.set_major_formatter(THOUSANDS)
    marks.set_ylabel("records")
    marks.set_xlabel("milliseconds since the kill")
    marks.xaxis.set_major_formatter(THOUSANDS)
    marks.set_xlim(found.begin_ms, found.end_ms)
    for axes in (parts, marks):
        axes.axvspan(0, failover_ms, color=color("bad"), alpha=FADED / 2, linewidth=0)
    for at_ms, name in ((0, "bad"), (found.elected_ms, "accent"), (failover_ms, "ink")):
        marks.axvline(at_ms, color=color(name), linewidth=1)
    _legend(marks)


def draw_lag(figure: Figure, story: Story) -> None:
    """How many records each replica was behind its leader."""
    axes = figure.subplots()
    styles = ("-", "--", ":", "-.")
    for node_id, looks in lags(story).items():
        times = [at_s for at_s, _ in looks]
        values = [float("nan") if lag is None else lag for _, lag in looks]
        style = styles[(node_id - 1) % len(styles)]
        axes.plot(times, values, color=node_color(node_id), label=f"node {node_id}", linestyle=style)
    axes.set_yscale("symlog", linthresh=10)
    axes.yaxis.set_major_formatter(THOUSANDS)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("records, log scale")
    _over_time(axes, story)
    _legend(axes)


def _steps(
    axes: Axes, cut: Sequence[TimeSlice], values: Sequence[float], *, color_name: str, label: str, style: str = "-"
) -> None:
    middles = [(each.begin_s + each.end_s) / 2 for each in cut]
    axes.plot(middles, values, style, color=color(color_name), label=label, marker=".", ms=2.5)


def _over_time(axes: Axes, story: Story, *, end_s: float | None = None) -> None:
    """The time axis of the run, with each time without a leader marked."""
    axes.set_xlim(0, end_s or load_s(story))
    axes.set_xlabel(SECONDS)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=8, steps=[1, 2, 5, 10]))
    for number, kill in enumerate(story.kills):
        begin_s = story.seconds_since_begin(kill.killed_wall_ms)
        end = story.seconds_since_begin(kill.acknowledged_wall_ms)
        label = "leader killed" if number == 0 else None
        axes.axvspan(begin_s, end, color=color("bad"), alpha=FADED, linewidth=0)
        axes.axvline(begin_s, color=color("bad"), linewidth=1.2, linestyle="-", label=label)


def _legend(axes: Axes) -> None:
    """Place the legend above the picture, where it hides nothing, in as many rows as the width requires."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        width = axes.get_figure(root=True).get_figwidth()
        columns = max(1, int(width * LETTERS_PER_INCH / (max(map(len, labels)) + LETTERS_PER_HANDLE)))
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1.02), ncols=min(columns, len(labels)), fontsize=SMALL)


def _columns(rows: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [row[0] for row in rows], [row[1] for row in rows]
