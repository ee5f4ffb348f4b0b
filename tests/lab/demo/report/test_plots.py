"""Plots: units on every axis, and marks at the right places."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from matplotlib.figure import Figure

from lab.demo.report import plots
from lab.demo.report.series import gap
from pykraft.page.plot_theme import drawing
from tests.lab.demo.stories import KILL, SECONDS, story

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
