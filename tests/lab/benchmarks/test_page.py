"""The page has a plot for each figure of interest, in each window, and text of a run cannot become markup."""

from pathlib import Path
from typing import Literal

import pytest

from lab.benchmarks.suite.cases import all_cases
from lab.benchmarks.suite.page import PLOTS, render
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
