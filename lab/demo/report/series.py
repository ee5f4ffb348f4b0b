"""Computes the numbers that a report draws: a story cut into time slices, times in seconds since the load began.

Pure functions of a `Story`. Invariant: a slice without acknowledgements is kept, because the reader looks for gaps.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lab.demo.story import Kill, Story
from pykraft.client.journal import Acknowledged
from pykraft.text.words import percentiles

SLICES_MAX = 120
WIDTHS_S = (0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 300, 900, 3_600)
"""Round widths that a person can read."""
SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
GAP_MARGIN_MS_MIN = 250


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
        """The rate."""
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
    """The duration of a slice."""
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
