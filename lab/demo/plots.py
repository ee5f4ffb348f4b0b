"""Draws the pictures of a report: each function draws a story into a figure.

A story is cut into time slices; a slice without acknowledgements is kept, because the reader looks for gaps. Every axis
has a unit; times are in seconds since the load began (around a fail-over: in ms since the kill). Invariant: position or
text tells everything that color tells.
"""

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from lab.demo.result import Kill, Story
from pykraft.local.journal import Acknowledged
from pykraft.page.plot_theme import LINE_STYLES, PLAIN, THOUSANDS, color, draw_rates, node_color
from pykraft.text.words import percentiles

SLICES_MAX = 120
WIDTHS_S = (0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 300, 900, 3_600)
"""Round widths that a person can read."""
SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
GAP_MARGIN_MS_MIN = 250
SECONDS = "seconds since the load began"
SPACE = "\u00a0"
"""Browsers keep it at the ends of a text, unlike other spaces."""
LABELED_SHARE_MIN = 0.09
"""A bar that takes less of the width than this has no room for a label."""
FADED = 0.16
SMALL = 9.5
LETTERS_PER_INCH = 11
LETTERS_PER_HANDLE = 6
"""Width of a legend's handle, in letters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSlice:
    """From ``begin_s`` to ``end_s``: the records acknowledged in it, and their latencies.

    ``latency_ms`` is from append to commit and ``wait_ms`` from commit to table, percentiles over records by the names
    of `SHARES`; None without records. A record that never came into a table has no wait.
    """

    begin_s: float
    end_s: float
    records: int
    latency_ms: Mapping[str, float] | None
    wait_ms: Mapping[str, float] | None

    @property
    def records_per_s(self) -> float:
        return self.records / (self.end_s - self.begin_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spell:
    """One node's leadership of one epoch, as observed from outside."""

    node_id: int
    epoch: int
    begin_s: float
    end_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """The time around a fail-over, times in ms since the kill.

    ``marks`` has one entry for each acknowledgement from ``begin_ms`` to ``end_ms``: when, how many records so far, and
    by which node.
    """

    kill: Kill
    begin_ms: float
    end_ms: float
    marks: tuple[tuple[float, int, int], ...]

    @property
    def elected_ms(self) -> int:
        """When the next leader led."""
        return self.kill.elected_wall_ms - self.kill.killed_wall_ms


def load_s(story: Story) -> float:
    """When the load ended; never zero, because it is the length of an axis."""
    return max(WIDTHS_S[0], story.seconds_since_begin(story.end_wall_ms))


def span_s(story: Story) -> float:
    """The time of the last event that is drawn."""
    return max([load_s(story), *(story.seconds_since_begin(batch.ended_wall_ms) for batch in story.batches)])


def slice_width_s(story: Story) -> float:
    span = load_s(story)
    return next((width for width in WIDTHS_S if span / width <= SLICES_MAX), span / SLICES_MAX)


def slices(story: Story) -> list[TimeSlice]:
    """The time of the load in slices, all of one width but the last one, which also has the rest of the time.

    A slice of its own for the rest would be so short that one acknowledgement looks like a burst. For the same reason
    no slice has what was acknowledged after the load ended.
    """
    width_s = slice_width_s(story)
    span = load_s(story)
    last = max(1, math.floor(span / width_s)) - 1
    said: defaultdict[int, list[Acknowledged]] = defaultdict(list)
    for one in story.acknowledged:
        at_s = story.seconds_since_begin(one.wall_ms)
        if at_s <= span:
            said[min(last, math.floor(at_s / width_s))].append(one)
    ends = [batch.end_offset for batch in story.batches]
    return [
        _slice(story, said[index], ends, index * width_s, span if index == last else (index + 1) * width_s)
        for index in range(last + 1)
    ]


def _slice(story: Story, said: Sequence[Acknowledged], ends: Sequence[int], begin_s: float, end_s: float) -> TimeSlice:
    waits = [(wait, one.count) for one in said if (wait := _wait_ms(story, one, ends)) is not None]
    return TimeSlice(
        begin_s=begin_s,
        end_s=end_s,
        records=sum(one.count for one in said),
        latency_ms=percentiles(((one.latency_ms, one.count) for one in said), SHARES) if said else None,
        wait_ms=percentiles(waits, SHARES) if waits else None,
    )


def _wait_ms(story: Story, one: Acknowledged, ends: Sequence[int]) -> float | None:
    index = bisect_left(ends, one.end_offset)
    return max(0.0, story.batches[index].ended_wall_ms - one.wall_ms) if index < len(ends) else None


def acknowledged_ends(story: Story) -> list[tuple[float, int]]:
    """The last acknowledgement of each slice width: when, in seconds, and the end offset."""
    width_s = slice_width_s(story)
    ends: dict[int, tuple[float, int]] = {}
    for one in story.acknowledged:
        at_s = story.seconds_since_begin(one.wall_ms)
        index = math.floor(at_s / width_s)
        ends[index] = max(ends.get(index, (at_s, 0)), (at_s, one.end_offset), key=lambda found: found[1])
    return [ends[index] for index in sorted(ends)]


def table_ends(story: Story) -> list[tuple[float, int]]:
    """The end offset of the tables after each micro-batch: seconds, end offset."""
    return [(story.seconds_since_begin(batch.ended_wall_ms), batch.end_offset) for batch in story.batches]


def spells(story: Story) -> list[Spell]:
    """Who led when, in the order of epochs: from the acknowledgements and from the samples.

    A killed leader led until the kill. A leader whose election was observed led from then on.
    """
    seen: dict[tuple[int, int], list[float]] = {}
    for epoch, node_id, wall_ms in _sightings(story):
        seen.setdefault((epoch, node_id), []).append(wall_ms)
    elections = {(kill.epoch, kill.leader_id): kill.elected_wall_ms for kill in story.kills}
    return [
        Spell(
            node_id=node_id,
            epoch=epoch,
            begin_s=story.seconds_since_begin(min(walls[0], elections.get((epoch, node_id), walls[0]))),
            end_s=story.seconds_since_begin(_killed_ms(story, node_id, min(walls)) or max(walls)),
        )
        for (epoch, node_id), walls in sorted((key, sorted(walls)) for key, walls in seen.items())
    ]


def _sightings(story: Story) -> Iterator[tuple[int, int, float]]:
    for one in story.acknowledged:
        yield int(one.epoch), int(one.node), one.wall_ms
    for sample in story.samples:
        if sample.leader_id is not None and sample.epoch is not None:
            yield sample.epoch, sample.leader_id, sample.wall_ms


def _killed_ms(story: Story, node_id: int, begin_wall_ms: float) -> int | None:
    kills = [kill.killed_wall_ms for kill in story.kills if kill.node_id == node_id]
    return min((wall_ms for wall_ms in kills if wall_ms >= begin_wall_ms), default=None)


def gap(story: Story, kill: Kill) -> Gap:
    """The acknowledgements around this kill, with half the fail-over time before and after it."""
    margin_ms = max(GAP_MARGIN_MS_MIN, kill.failover_ms / 2)
    begin_ms, end_ms = -margin_ms, kill.failover_ms + margin_ms
    marks: list[tuple[float, int, int]] = []
    total = 0
    for one in sorted(story.acknowledged, key=lambda one: one.wall_ms):
        at_ms = one.wall_ms - kill.killed_wall_ms
        if begin_ms <= at_ms <= end_ms:
            total += one.count
            marks.append((at_ms, total, int(one.node)))
    return Gap(kill=kill, begin_ms=begin_ms, end_ms=end_ms, marks=tuple(marks))


def lags(story: Story) -> dict[int, list[tuple[float, int | None]]]:
    """By node: the middle of each slice, and the largest lag in records; None if it is unknown."""
    width_s = slice_width_s(story)
    most: defaultdict[int, dict[int, int | None]] = defaultdict(dict)
    node_ids = sorted({node_id for sample in story.samples for node_id in sample.replicas})
    for sample in story.samples:
        index = math.floor(story.seconds_since_begin(sample.wall_ms) / width_s)
        for node_id in node_ids:
            replica = sample.replicas.get(node_id)
            lag = replica.lag if replica and replica.lag >= 0 else None
            former = most[node_id].get(index)
            most[node_id][index] = lag if former is None else max(former, lag or 0)
    return {
        node_id: [((index + 0.5) * width_s, lag) for index, lag in sorted(found.items())]
        for node_id, found in most.items()
    }


def draw_throughput(figure: Figure, story: Story) -> None:
    """Acknowledged records per second, against the requested rate."""
    axes = figure.subplots()
    cut = slices(story)
    edges = [*(each.begin_s for each in cut), cut[-1].end_s]
    heights = [each.records_per_s for each in cut]
    draw_rates(axes, edges, heights, name="accent", unit="records per second", label="acknowledged")
    axes.axhline(story.options.throughput, color=color("soft"), linestyle="--", linewidth=1, label="asked for")
    axes.set_ylim(0, 1.15 * max(story.options.throughput, *heights))
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
    for node_id, looks in lags(story).items():
        times = [at_s for at_s, _ in looks]
        values = [float("nan") if lag is None else lag for _, lag in looks]
        style = LINE_STYLES[(node_id - 1) % len(LINE_STYLES)]
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
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        width = axes.get_figure(root=True).get_figwidth()
        columns = max(1, int(width * LETTERS_PER_INCH / (max(map(len, labels)) + LETTERS_PER_HANDLE)))
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1.02), ncols=min(columns, len(labels)), fontsize=SMALL)


def _columns(rows: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [row[0] for row in rows], [row[1] for row in rows]
