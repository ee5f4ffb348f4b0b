"""Figures for notebooks: in the colors of a scheme, and a clear error without matplotlib."""

import importlib
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pykraft.errors import UsageError
from pykraft.page import PLACE
from pykraft.page.plot_theme import PlotScheme, scheme_colors
from pykraft.spark.pipeline.figures import (
    LEADERS_SHOWN_MAX,
    NAME_LENGTH_MAX,
    PLOTS,
    SLICES_MAX,
    SPELLS_MAX,
    drawn,
    leaderships,
    origin_of,
    pipeline_page,
    rates,
    read_run,
    report_figures,
    shown,
)
from pykraft.spark.pipeline.report import PipelineRun
from pykraft.spark.pipeline.run import PipelineOptions, start_pipeline
from tests.browser import OpenPage
from tests.look import Scheme, faults_of, in_all_windows
from tests.spark.logs import three_batches, write_segment
from tests.spark.pipeline.some_runs import at, epoch, run


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_figures_have_the_colors_of_their_scheme(scheme: PlotScheme, tmp_path: Path) -> None:
    from matplotlib.colors import to_hex

    figures = report_figures(run("one"), run("two"), scheme=scheme)
    assert list(figures) == ["throughput", "bytes", "leadership", "sizes"]
    colors = scheme_colors(scheme)
    axes = figures["throughput"].axes[0]
    assert to_hex(figures["throughput"].get_facecolor()) == colors["paper"]
    assert {to_hex(label.get_color()) for label in axes.get_xticklabels()} == {colors["soft"]}
    figures["sizes"].savefig(tmp_path / "sizes.png")


def test_without_matplotlib_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "pykraft.spark.pipeline.figures")
    monkeypatch.setitem(sys.modules, "matplotlib.axes", None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UsageError, match=r"a figure needs matplotlib, .*pip install 'pykraft\[plots\]'"):
        importlib.import_module("pykraft.spark.pipeline.figures")


def test_a_run_is_read_from_its_tables(spark: SparkSession, tmp_path: Path) -> None:
    write_segment(tmp_path / "n1" / "p-0", b"".join(three_batches()))
    root = tmp_path / "tables"
    start_pipeline(spark, PipelineOptions(source={"path": f"{tmp_path}/n*/p-0"}, root=root)).awaitTermination()
    found = read_run(spark, root)
    assert (found.name, found.report.replica) == (str(root), "n1")
    assert found.tables["silver_records"].rows == 6
    assert "sizes" in report_figures(found)
    assert read_run(spark, str(root), name="mine").name == "mine"
    with pytest.raises(UsageError, match="no pipeline has written there"):
        read_run(spark, tmp_path / "none")


BY_NAME = {plot.name: plot for plot in PLOTS}


def without_records(name: str) -> PipelineRun:
    made = run(name)
    return replace(made, report=replace(made.report, throughput=[]))


def test_a_figure_is_shown_if_a_run_has_its_numbers() -> None:
    assert [plot.name for plot in shown([run()])] == list(BY_NAME)
    bare = without_records("bare")
    assert [plot.name for plot in shown([bare])] == ["leadership", "sizes"]
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
    with drawn(BY_NAME["throughput"], [run("one"), without_records(name)], is_narrow=True) as figure:
        titles = [axes.get_title("left") for axes in figure.axes]
        texts = [text.get_text() for axes in figure.axes for text in axes.texts]
    assert titles[0] == "one"
    assert titles[1].startswith("…a")
    assert len(titles[1]) == NAME_LENGTH_MAX
    assert texts == ["not measured"]
    with drawn(BY_NAME["throughput"], [run("one")]) as figure:
        assert figure.axes[0].get_title("left") == ""


def test_each_leader_has_a_lane_and_wide_bars_their_epoch() -> None:
    with drawn(BY_NAME["leadership"], [run()]) as figure:
        (axes,) = figure.axes
        assert [label.get_text() for label in axes.get_yticklabels()] == ["node 1", "node 2", "node 3"]
        assert [text.get_text() for text in axes.texts] == ["epoch 1", "epoch 2"]


REPORT = run(seconds=4).report


def test_rates_are_by_second_and_a_pause_is_zero() -> None:
    steps = rates(REPORT, "records")
    assert steps.edges == [0, 1, 2, 3, 4]
    assert steps.values == [1_000, 1_001, 0, 1_003]


def test_a_single_interval_is_a_second() -> None:
    one = replace(REPORT, throughput=REPORT.throughput[:1])
    assert (rates(one, "size_bytes").edges, rates(one, "size_bytes").values) == ([0, 1], [100_000])
    assert rates(replace(REPORT, throughput=[]), "records").values == []


@pytest.mark.parametrize("seconds", [SLICES_MAX + 1, 5_000, 86_400])
def test_a_long_run_has_as_many_records_in_fewer_slices(seconds: int) -> None:
    report = run(seconds=seconds).report
    steps = rates(report, "records")
    assert len(steps.values) <= SLICES_MAX
    assert steps.edges[-1] == seconds
    lengths = [end - begin for begin, end in zip(steps.edges, steps.edges[1:], strict=False)]
    records = sum(value * length for value, length in zip(steps.values, lengths, strict=True))
    assert records == pytest.approx(sum(row["records"] for row in report.throughput))


def test_a_leader_leads_until_the_next_one_begins() -> None:
    report = replace(REPORT, epochs=[epoch(1, 1, 0, 4), epoch(2, 3, 5, 9), epoch(3, 2, 10, 8)])
    found = [(each.leader_id, each.epoch, each.begin_s, each.end_s) for each in leaderships(report)]
    assert found == [(1, 1, 0, 5), (3, 2, 5, 10), (2, 3, 10, 10)]
    assert leaderships(replace(report, epochs=[])) == []


def test_of_very_many_epochs_the_last_ones_are_shown() -> None:
    spells = [epoch(number, 1, number, number + 1) for number in range(SPELLS_MAX + 3)]
    assert leaderships(replace(REPORT, epochs=spells))[0].epoch == 3


def test_time_begins_with_the_first_record_or_leader() -> None:
    assert origin_of(replace(REPORT, epochs=[epoch(1, 1, -2, 4)])) == at(-2)
    assert origin_of(replace(REPORT, epochs=[], throughput=[])) == origin_of(replace(REPORT, epochs=[], throughput=[]))


EVIL = "<script>alert(1)</script> @totals@"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs; one is long, has an evil name."""
    path = tmp_path_factory.mktemp("pipeline") / "page.html"
    path.write_text(pipeline_page([run("runs/one/tables"), run(EVIL, seconds=5_000)]))
    return path


@in_all_windows
def test_the_page_looks_right(open_page: OpenPage, written: Path, width: int, scheme: Scheme) -> None:
    assert faults_of(open_page(written, width=width, scheme=scheme)) == []


def test_what_tables_say_is_text(open_page: OpenPage, written: Path) -> None:
    page = open_page(written)
    assert page.locator("script").count() == 0
    assert EVIL in page.inner_text("h1")
    assert page.locator("figure").count() == 4


def test_one_run_has_its_totals_tables_and_leaders() -> None:
    page = pipeline_page([run()])
    assert not PLACE.findall(page)
    assert "<h1>tables</h1>" in page
    assert '<tr><td>records</td><td class="number">59,000</td></tr>' in page
    assert (
        '<tr><td>silver_records</td><td class="number">10,000</td><td class="number">24</td>'
        '<td class="number">6,800,000</td></tr>'
    ) in page
    assert '<td class="number">1,203</td>' in page
    assert "<h3>" not in page


def test_two_runs_stand_side_by_side() -> None:
    page = pipeline_page([run("one"), run("two", pace=5)])
    assert '<thead><tr><th></th><th class="number">one</th><th class="number">two</th></tr></thead>' in page
    assert page.count("<h3>two</h3>") == 2


def test_of_many_epochs_the_last_ones_are_listed() -> None:
    many = run()
    spells = [epoch(number, 1, number, number + 1) for number in range(1, LEADERS_SHOWN_MAX + 3)]
    page = pipeline_page([replace(many, report=replace(many.report, epochs=spells))])
    assert "These are the last 100 of 102 epochs." in page
