"""Plots: units on every axis, and marks at the right places."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from matplotlib.figure import Figure

from lab.demo.plots import gap, slice_width_s, slices, spells
from pykraft.page.plot_theme import drawing
from tests.lab.demo.stories import KILL, SECONDS, story

pytestmark = pytest.mark.spark
STORY = story()


def drawn(draw: Callable[[Figure], None]) -> Figure:
    with drawing("it", height_inches=3.0, is_narrow=False) as figure:
        draw(figure)
        return figure


def test_all_acknowledged_records_are_in_the_slices_and_the_gap_is_empty() -> None:
    found = slices(STORY)
    assert slice_width_s(STORY) == 0.25
    assert len(found) == SECONDS * 4
    assert sum(each.records for each in found) == STORY.result.audit.acknowledged
    assert [(each.begin_s, each.end_s) for each in found[:2]] == [(0.0, 0.25), (0.25, 0.5)]
    during = [each for each in found if 15.25 <= each.begin_s < 16.5]
    assert [(each.records_per_s, each.latency_ms) for each in during] == [(0.0, None)] * 5


def test_a_record_waits_until_the_micro_batch_that_holds_it_has_ended() -> None:
    first = slices(STORY)[0].wait_ms
    assert first is not None
    assert first["max"] == STORY.batches[0].ended_wall_ms - STORY.acknowledged[0].wall_ms
    assert slices(replace(STORY, batches=STORY.batches[:1]))[-1].wait_ms is None


def test_a_killed_leader_led_until_then_and_the_next_one_from_its_election_on() -> None:
    first, second = spells(STORY)
    assert (first.node_id, first.epoch, first.end_s) == (2, 1, 15.2)
    assert (second.node_id, second.epoch, second.begin_s) == (3, 2, 15.2 + 1.48)
    assert second.end_s > 29.9


def test_the_gap_shows_what_came_before_and_after_the_kill_and_nothing_in_between() -> None:
    found = gap(STORY, KILL)
    assert found.elected_ms == 1_480
    assert (found.begin_ms, found.end_ms) == (-757.5, 1515 + 757.5)
    times = [at_ms for at_ms, _, _ in found.marks]
    assert [at_ms for at_ms in times if 0 < at_ms < 1_515] == []
    assert 1_515 in times
    assert {node_id for at_ms, _, node_id in found.marks if at_ms > 0} == {3}
