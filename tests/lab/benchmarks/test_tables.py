"""Tables show medians with their spreads and ratios of one turn, and fill the marked parts of a document."""

from pathlib import Path

from lab.benchmarks.suite.cases import all_cases
from lab.benchmarks.suite.results import SuiteRun
from lab.benchmarks.suite.summary import summaries
from lab.benchmarks.suite.tables import COLUMNS, NOT_MEASURED, TITLES, fill_document, text_tables
from tests.lab.benchmarks.samples import sample_results
from tests.tidy.repository import ROOT


def test_each_group_has_a_table(tmp_path: Path) -> None:
    results = sample_results(tmp_path / "results.jsonl")
    text = "\n".join(text_tables(summaries(all_cases(), results.runs), results, width=None))
    assert [title for title in TITLES.values() if title not in text] == []
    assert "etcd was left out: there is no go on the PATH" in text
    assert COLUMNS.keys() == TITLES.keys() == {case.group for case in all_cases()}


def test_the_marked_parts_of_a_document_are_filled_again_and_again(tmp_path: Path) -> None:
    begin = "# Title\n\nText.\n\n<!-- results: start --><!-- no -->\n"
    document = f"{begin}<!-- results: voters -->\n| old |\n<!-- end -->\n\nMore.\n"
    start = SuiteRun(case="start", contender="pykraft", turn=1, figures={"start_ms": 300.0})
    other_results = sample_results(tmp_path / "results.jsonl", [start])
    assert fill_document(document, summaries(all_cases(), other_results.runs), other_results) == document
    failed = sample_results(
        tmp_path / "failed.jsonl", [SuiteRun(case="voters-1", contender="kafka", turn=1, failure="no")]
    )
    empty = fill_document(document, summaries(all_cases(), failed.runs), failed)
    assert NOT_MEASURED in empty
    assert "\n\n- FAILED voters-1, kafka: 1 of 1: no\n" in empty
    full_results = sample_results(tmp_path / "full.jsonl")
    found = summaries(all_cases(), full_results.runs)
    full = fill_document(empty, found, full_results)
    assert "| 1 voter | pykraft | 2,500 (2,000–3,000) |" in full
    assert "\n\nMeasured 2" in full
    assert "old" not in full
    assert full.startswith("# Title")
    assert full.endswith("More.\n")
    assert fill_document(full, found, full_results) == full


def test_the_document_has_a_place_for_each_group() -> None:
    text = (ROOT / "docs" / "performance.md").read_text()
    assert [group for group in TITLES if f"<!-- results: {group} -->\n" not in text] == []
