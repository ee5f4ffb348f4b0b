"""Panels of two runs have one scale that fits both; a run without numbers says so."""

from __future__ import annotations

from pykraft.spark.pipeline.plots import NAME_LENGTH_MAX, PLOTS, drawn, shown
from tests.spark.pipeline.some_runs import run

BY_NAME = {plot.name: plot for plot in PLOTS}


def test_a_figure_is_shown_if_a_run_has_its_numbers() -> None:
    bare = run(is_watched=False)
    assert [plot.name for plot in shown([run()])] == list(BY_NAME)
    assert [plot.name for plot in shown([bare])] == ["throughput", "bytes", "leadership", "sizes"]
    assert [plot.name for plot in shown([bare, run()])] == list(BY_NAME)


def test_panels_share_a_scale_from_zero_that_fits_the_faster_run() -> None:
    for runs in ([run(pace=1_000), run(pace=9_000)], [run(pace=9_000), run(pace=1_000)]):
        with drawn(BY_NAME["throughput"], runs) as figure:
            scales = [axes.get_ylim() for axes in figure.axes]
        assert scales[0] == scales[1]
        assert scales[0][0] == 0
        assert scales[0][1] > 9_000


def test_every_panel_has_the_name_of_its_run_if_there_are_several() -> None:
    name = "a" * 2 * NAME_LENGTH_MAX
    with drawn(BY_NAME["latency"], [run("one"), run(name, is_watched=False)], is_narrow=True) as figure:
        titles = [axes.get_title("left") for axes in figure.axes]
        texts = [text.get_text() for axes in figure.axes for text in axes.texts]
    assert titles[0] == "one"
    assert titles[1].startswith("…a")
    assert len(titles[1]) == NAME_LENGTH_MAX
    assert texts == ["not measured"]
    with drawn(BY_NAME["latency"], [run("one")]) as figure:
        assert figure.axes[0].get_title("left") == ""


def test_each_leader_has_a_lane_and_wide_bars_their_epoch() -> None:
    with drawn(BY_NAME["leadership"], [run()]) as figure:
        (axes,) = figure.axes
        assert [label.get_text() for label in axes.get_yticklabels()] == ["node 1", "node 2", "node 3"]
        assert [text.get_text() for text in axes.texts] == ["epoch 1", "epoch 2"]
