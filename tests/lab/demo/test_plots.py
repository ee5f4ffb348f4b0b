"""Plots: units on every axis, and marks at the right places.

A story in slices of time: nothing is left out, and gaps are visible.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
from matplotlib.figure import Figure

from lab.demo import plots
from lab.demo.plots import (
    acknowledged_ends,
    gap,
    lags,
    slice_width_s,
    slices,
    span_s,
    spells,
    table_ends,
)
from pykraft.page.plot_theme import drawing
from tests.lab.demo.stories import BEGIN_MS, KILL, SECONDS, story

pytestmark = pytest.mark.spark
STORY = story()
OVER_TIME = [plots.draw_throughput, plots.draw_latency, plots.draw_tables, plots.draw_lag, plots.draw_leadership]


def drawn(draw: Callable[[Figure], None]) -> Figure:
    with drawing("it", height_inches=3.0, is_narrow=False) as figure:
        draw(figure)
        return figure


@pytest.mark.parametrize("draw", OVER_TIME)
def test_the_axes_have_units_and_hold_all_of_the_run(draw: Callable[..., None]) -> None:
    figure = drawn(partial(draw, story=STORY))
    assert figure.axes[-1].get_xlabel() == "seconds since the load began"
    for axes in figure.axes:
        assert axes.get_xlim()[0] == 0
        assert axes.get_xlim()[1] >= SECONDS
        assert axes.get_ylabel() or draw is plots.draw_leadership


def test_each_leadership_is_in_the_lane_of_its_node() -> None:
    [axes] = drawn(partial(plots.draw_leadership, story=STORY)).axes
    words = {text.get_text(): text.get_position() for text in axes.texts}
    assert words["leads epoch 1"] == pytest.approx((7.6, 2), abs=0.2)
    assert words["leads epoch 2"] == pytest.approx((23.3, 3), abs=0.2)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["node 1", "node 2", "node 3"]


def test_the_gap_tells_its_parts_and_their_sum() -> None:
    parts, marks = drawn(partial(plots.draw_gap, found=gap(STORY, KILL))).axes
    assert [text.get_text().strip() for text in parts.texts] == ["1,480 ms", "35 ms", "1,515 ms"]
    assert marks.get_xlabel() == "milliseconds since the kill"
    lines = {line.get_xdata()[0] for line in marks.get_lines() if len(line.get_xdata()) == 2}
    assert {0, 1_480, 1_515} <= lines


def test_all_acknowledged_records_are_in_the_slices_and_the_gap_is_empty() -> None:
    found = slices(STORY)
    assert slice_width_s(STORY) == 0.25
    assert len(found) == SECONDS * 4
    assert sum(each.records for each in found) == STORY.result.audit.acknowledged
    assert [(each.begin_s, each.end_s) for each in found[:2]] == [(0.0, 0.25), (0.25, 0.5)]
    during = [each for each in found if 15.25 <= each.begin_s < 16.5]
    assert [(each.records_per_s, each.latency_ms) for each in during] == [(0.0, None)] * 5


@pytest.mark.parametrize("rest_ms", [1, 100, 249])
def test_the_rest_of_the_time_is_no_burst(rest_ms: int) -> None:
    """The load goes on while its end is told to the nodes; those records are not counted as if they came before."""
    end_ms = BEGIN_MS + 29_000 + rest_ms
    found = slices(replace(STORY, end_wall_ms=end_ms))
    assert [each.end_s for each in found[-2:]] == [28.75, 29 + rest_ms / 1_000]
    assert sum(each.records for each in found) == sum(
        each.count for each in STORY.acknowledged if each.wall_ms <= end_ms
    )
    usual = max(each.records_per_s for each in found[:-1])
    assert 0.9 * STORY.options.throughput <= found[-1].records_per_s <= usual


def test_percentiles_of_a_slice_ascend() -> None:
    for each in slices(STORY):
        for found in (each.latency_ms, each.wait_ms):
            assert found is None or list(found.values()) == sorted(found.values())


def test_a_record_waits_until_the_micro_batch_that_holds_it_has_ended() -> None:
    first = slices(STORY)[0].wait_ms
    assert first is not None
    assert first["max"] == STORY.batches[0].ended_wall_ms - STORY.acknowledged[0].wall_ms
    assert slices(replace(STORY, batches=STORY.batches[:1]))[-1].wait_ms is None


def test_a_run_without_anything_has_empty_slices() -> None:
    nothing = replace(STORY, acknowledged=(), samples=(), batches=(), kills=(), end_wall_ms=BEGIN_MS)
    assert [each.records for each in slices(nothing)] == [0]
    assert (acknowledged_ends(nothing), table_ends(nothing), spells(nothing), lags(nothing)) == ([], [], [], {})
    assert span_s(nothing) == 0.1


def test_a_long_run_has_as_many_slices_as_can_be_seen() -> None:
    day = replace(STORY, end_wall_ms=BEGIN_MS + 86_400_000, acknowledged=())
    assert slice_width_s(day) == 900
    assert len(slices(replace(day, end_wall_ms=BEGIN_MS + 864_000_000))) == 120


def test_ends_of_log_and_tables_meet_at_last() -> None:
    assert acknowledged_ends(STORY)[-1][1] == table_ends(STORY)[-1][1] == STORY.acknowledged[-1].end_offset
    assert span_s(STORY) == table_ends(STORY)[-1][0]


def test_a_killed_leader_led_until_then_and_the_next_one_from_its_election_on() -> None:
    first, second = spells(STORY)
    assert (first.node_id, first.epoch, first.end_s) == (2, 1, 15.2)
    assert (second.node_id, second.epoch, second.begin_s) == (3, 2, 15.2 + 1.48)
    assert second.end_s > 29.9


def test_who_leads_without_a_load_is_seen_by_asking() -> None:
    found = spells(replace(STORY, acknowledged=()))
    assert [(each.node_id, each.epoch) for each in found] == [(2, 1), (3, 2)]


def test_the_gap_shows_what_came_before_and_after_the_kill_and_nothing_in_between() -> None:
    found = gap(STORY, KILL)
    assert found.elected_ms == 1_480
    assert (found.begin_ms, found.end_ms) == (-757.5, 1515 + 757.5)
    times = [at_ms for at_ms, _, _ in found.marks]
    assert [at_ms for at_ms in times if 0 < at_ms < 1_515] == []
    assert 1_515 in times
    assert {node_id for at_ms, _, node_id in found.marks if at_ms > 0} == {3}


def test_what_a_leader_does_not_know_of_a_replica_is_no_number() -> None:
    found = lags(STORY)
    assert set(found) == {1, 2, 3}
    unknown = [at_s for at_s, lag in found[2] if lag is None]
    assert min(unknown) > 15.2
    assert max(unknown) < 17.1
