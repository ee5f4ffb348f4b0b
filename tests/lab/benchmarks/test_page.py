"""The page has a plot for each figure of interest, in each window, and text of a run cannot become markup."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from lab.benchmarks.suite.cases import all_cases
from lab.benchmarks.suite.page import PLOTS, render
from lab.benchmarks.suite.plots import words_of
from lab.benchmarks.suite.summary import summaries
from pykraft.page import PLACE
from tests.browser import OpenPage
from tests.lab.benchmarks.samples import LACKING, sample_results
from tests.look import faults_of, in_all_windows

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    results = sample_results(folder / "results.jsonl")
    text = render(summaries(all_cases(), results.runs), results)
    assert not PLACE.findall(text)
    (folder / "index.html").write_text(text)
    return folder / "index.html"


@in_all_windows
def test_it_looks_right(open_page: OpenPage, page: Path, width: int, scheme: Literal["light", "dark"]) -> None:
    opened = open_page(page, width=width, scheme=scheme)
    assert faults_of(opened) == []
    assert opened.locator("figure").count() == len(PLOTS)
    assert f"etcd was left out: {LACKING}" in opened.inner_text("header")


def test_numbers_are_written_out() -> None:
    assert [words_of(value) for value in (0.0337, 1.0, 8.27, 13.65, 99.9, 1_831.2, 2_966_970.0)] == [
        "0.0337",
        "1.00",
        "8.27",
        "13.7",
        "99.9",
        "1,831",
        "2,966,970",
    ]


def test_without_results_there_is_no_plot(tmp_path: Path) -> None:
    results = sample_results(tmp_path / "results.jsonl", [])
    assert "<figure" not in render(summaries(all_cases(), results.runs), results)
