"""Figures for notebooks: in the colors of a scheme, and a clear error without matplotlib."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pykraft.errors import UsageError
from pykraft.page.plot_theme import PlotScheme, scheme_colors
from pykraft.spark.pipeline.figures import read_run, report_figures
from pykraft.spark.pipeline.run import PipelineOptions, start_pipeline
from tests.spark.logs import three_batches, write_segment
from tests.spark.pipeline.some_runs import run


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_figures_have_the_colors_of_their_scheme(scheme: PlotScheme, tmp_path: Path) -> None:
    from matplotlib.colors import to_hex

    figures = report_figures(run("one"), run("two"), scheme=scheme)
    assert list(figures) == ["throughput", "bytes", "latency", "leadership", "lag", "sizes"]
    colors = scheme_colors(scheme)
    axes = figures["throughput"].axes[0]
    assert to_hex(figures["throughput"].get_facecolor()) == colors["paper"]
    assert {to_hex(label.get_color()) for label in axes.get_xticklabels()} == {colors["soft"]}
    figures["sizes"].savefig(tmp_path / "sizes.png")


def test_without_matplotlib_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "pykraft.spark.pipeline.plots", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib.axes", None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UsageError, match=r"a figure needs matplotlib, .*pip install 'pykraft\[plots\]'"):
        report_figures(run())


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
