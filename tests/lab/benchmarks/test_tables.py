"""Tables show medians with their spreads and ratios of one turn, and fill the marked parts of a document."""

from __future__ import annotations

from pathlib import Path

from lab.benchmarks.suite.cases import all_cases
from lab.benchmarks.suite.results import SuiteRun
from lab.benchmarks.suite.summary import summaries
from lab.benchmarks.suite.tables import COLUMNS, NOT_MEASURED, TITLES, fill_document, table_of, text_tables
from tests.lab.benchmarks.samples import sample_results
from tests.tidy.repository import ROOT


def test_each_group_has_a_table(tmp_path: Path) -> None:
    results = sample_results(tmp_path / "results.jsonl")
    text = "\n".join(text_tables(summaries(all_cases(), results.runs), results, width=None))
    assert [title for title in TITLES.values() if title not in text] == []
    assert "etcd was left out: there is no go on the PATH" in text
    assert COLUMNS.keys() == TITLES.keys() == {case.group for case in all_cases()}


def test_a_ratio_compares_runs_of_one_turn(tmp_path: Path) -> None:
    results = sample_results(tmp_path / "results.jsonl")
    heads, rows = table_of("single", summaries(all_cases(), results.runs))
    rows_by_name = {row[1]: dict(zip(heads, row, strict=True)) for row in rows[:5]}
    assert rows_by_name["pykraft"]["operations/s"] == "2,500 (2,000–3,000)"
    assert rows_by_name["hashicorp"]["pykraft ÷ it"] == "2.50 (2.00–3.00)"
    assert rows_by_name["appenders"]["p50 ms"] == "-"


def test_more_observers_are_compared_with_none(tmp_path: Path) -> None:
    def run(count: int, turn: int, p99_ms: float) -> SuiteRun:
        return SuiteRun(case=f"observers-{count}", contender="pykraft", turn=turn, figures={"p99_ms": p99_ms})

    runs = [run(0, 1, 10.0), run(100, 1, 15.0), run(0, 2, 10.0), run(100, 2, 25.0), run(100, 3, 99.0)]
    results = sample_results(tmp_path / "results.jsonl", runs)
    heads, rows = table_of("observers", summaries(all_cases(), results.runs))
    assert heads == ["", "", "p99 ms", "p99 ÷ that of the first row"]
    assert [row[3] for row in rows] == ["-", "2.00 (1.50–2.50)"]


def test_a_failed_run_is_told_and_has_no_figures(tmp_path: Path) -> None:
    runs = [
        SuiteRun(case="start", contender="pykraft", turn=1, figures={"start_ms": 300.0}),
        SuiteRun(case="start", contender="kafka", turn=1, failure="node 1 ended with 1"),
    ]
    results = sample_results(tmp_path / "results.jsonl", runs)
    text = "\n".join(text_tables(summaries(all_cases(), results.runs), results, width=None))
    assert "FAILED start, kafka: 1 of 1: node 1 ended with 1" in text
    assert [row[1] for row in table_of("start", summaries(all_cases(), results.runs))[1]] == ["pykraft"]


def test_a_busy_machine_is_told(tmp_path: Path) -> None:
    run = SuiteRun(case="start", contender="pykraft", turn=1, figures={"start_ms": 300.0}, busy_cores_before=1.5)
    results = sample_results(tmp_path / "results.jsonl", [run])
    assert "Other work used 1.5 cores meanwhile: a draft" in "\n".join(text_tables([], results, width=None))


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
