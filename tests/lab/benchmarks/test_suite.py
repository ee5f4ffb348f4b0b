"""The command: its lists, its refusals, and one short suite with real processes.

A file of results survives a kill, and a suite goes on where it stopped.

Contenders run in turn, each run is kept at once, and what fails or is missing does not end the suite.

Tables show medians with their spreads and ratios of one turn, and fill the marked parts of a document.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lab.benchmarks.suite.__main__ import main
from lab.benchmarks.suite.cases import Case, all_cases
from lab.benchmarks.suite.measures import Figures, Setting
from lab.benchmarks.suite.results import Results, SuiteRun
from lab.benchmarks.suite.run import EVERY_CASE, SuiteOptions, run_suite
from lab.benchmarks.suite.summary import summaries
from lab.benchmarks.suite.tables import COLUMNS, NOT_MEASURED, TITLES, fill_document, text_tables
from pykraft.errors import LocalQuorumError, UsageError
from tests.lab.benchmarks.samples import sample_results
from tests.lab.lines import Lines
from tests.tidy.repository import ROOT


def test_the_list_has_every_case(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["CASE", "SHORT", "GROUP", "CONTENDERS"]
    assert len(lines) == 1 + len(all_cases())


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["run", "--runs", "0"], "--runs 0: give 1 to 100"),
        (["run", "--cases", "nothing"], "--cases nothing: there is no such case or group; the command list shows all"),
        (["run", "--dir", "absent"], "--dir absent: there is no such folder"),
        (["docs", "absent.jsonl"], "absent.jsonl: there are no results in it"),
    ],
)
def test_wrong_input_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: list[str], problem: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    assert capsys.readouterr().err == f"error: {problem}\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.timeout(300)
@pytest.mark.processes
def test_a_short_suite_of_ours_and_the_appenders(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    options = {
        "--cases": "single-64,observers-1",
        "--contenders": "pykraft,appenders",
        "--runs": "1",
        "--seconds": "0.5",
        "--warm-up": "0.5",
        "--dir": str(disk),
        "--results": str(tmp_path / "results.jsonl"),
    }
    words = [word for option in options.items() for word in option]
    command = [sys.executable, "-m", "lab.benchmarks.suite", "run", *words, "--json"]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    runs = {(run["case"], run["contender"]): run for run in json.loads(done.stdout)["runs"]}
    assert runs.keys() == {("single-64", "pykraft"), ("single-64", "appenders"), ("observers-1", "pykraft")}
    for run in runs.values():
        assert run["failure"] is None
        assert run["figures"]["rate"] > 0
        assert run["figures"]["cpu_us"] > 0
        assert run["figures"]["memory_mib"] > 1
    assert runs["single-64", "pykraft"]["figures"]["p50_ms"] <= runs["single-64", "pykraft"]["figures"]["p99_ms"]
    assert list(disk.iterdir()) == []
    document = tmp_path / "performance.md"
    document.write_text("<!-- results: single -->\n<!-- end -->\n")
    assert main(["docs", options["--results"], "--document", str(document)]) == 0
    assert "| 64 callers | pykraft | " in document.read_text()


RUN = SuiteRun(case="start", contender="pykraft", turn=1, figures={"start_ms": 310.0})
FAILED = SuiteRun(case="start", contender="kafka", turn=1, failure="its load thread died")


def test_runs_are_read_again(tmp_path: Path) -> None:
    path = tmp_path / "new" / "results.jsonl"
    results = Results(path, {"seconds": 3.0})
    results.add(RUN)
    results.add(FAILED)
    again = Results(path)
    assert again.runs == [RUN, FAILED]
    assert again.head["settings"] == {"seconds": 3.0}
    assert again.head["machine"]["cores"] >= 1
    assert again.has("start", "kafka", 1)
    assert not again.has("start", "kafka", 2)
    assert json.loads(json.dumps(again.document()))["runs"][0]["figures"] == {"start_ms": 310.0}


def test_a_run_that_a_kill_cut_short_is_repeated(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    Results(path, {}).add(RUN)
    whole = path.read_bytes()
    path.write_bytes(whole + whole.splitlines()[-1][:20])
    results = Results(path, {})
    assert results.runs == [RUN]
    results.add(FAILED)
    assert Results(path).runs == [RUN, FAILED]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "there are no results in it"),
        ('{"machine": {}}\nnonsense\n{}\n', "line 2 is not JSON"),
        ('{"machine": {}}\n[1]\n', "line 2 is not a run"),
        ('{"some": "document"}\n', "it is not a file of results of this suite"),
        ('{"machine": {}}\n{"some": "document"}\n', "line 2 is not a run"),
    ],
)
def test_another_file_is_refused_in_one_line(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "results.jsonl"
    path.write_text(text)
    with pytest.raises(UsageError, match=problem):
        Results(path)


class Counter:
    """A contender whose rate is the number of its run."""

    def __init__(self) -> None:
        self.settings: list[Setting] = []

    def __call__(self, setting: Setting) -> Figures:
        self.settings.append(setting)
        setting.report("and so on", is_passing=True)
        (setting.place / "kept").touch()
        return {"rate": float(len(self.settings)), "p50_ms": 1 / 3}


def fail(_: Setting) -> Figures:
    raise LocalQuorumError("nothing was committed")


def case(name: str, group: str = "group", **contenders: object) -> Case:
    return Case(group=group, name=name, label=name, position=0, contenders=contenders)  # type: ignore[arg-type]


def options(folder: Path, runs: int = 2, *contenders: str) -> SuiteOptions:
    return SuiteOptions(
        runs=runs, seconds=1.0, warm_up_s=0.0, rounds=1, disk=folder, memory=folder, contenders=frozenset(contenders)
    )


def test_all_cases_of_a_group_take_turns_and_a_failure_is_a_result(tmp_path: Path) -> None:
    results, told, counter = Results(tmp_path / "r.jsonl", {}), Lines(), Counter()
    cases = [case("one", pykraft=counter, kafka_like=fail), case("two", pykraft=counter), case("b", "other", ours=fail)]
    run_suite(cases, options(tmp_path), results, told)
    assert [(run.case, run.contender, run.turn) for run in results.runs] == [
        ("one", "pykraft", 1),
        ("one", "kafka_like", 1),
        ("two", "pykraft", 1),
        ("one", "pykraft", 2),
        ("one", "kafka_like", 2),
        ("two", "pykraft", 2),
        ("b", "ours", 1),
        ("b", "ours", 2),
    ]
    assert results.runs[0].figures == {"rate": 1.0, "p50_ms": 0.333333}
    assert results.runs[1].failure == "nothing was committed"
    assert told.stages[0].endswith("one, pykraft, run 1 of 2: 1/s, p50 0.33 ms")
    assert told.stages[1].endswith("FAILED: nothing was committed")
    one, two, three = (counter.settings[at] for at in (0, 1, 2))
    assert one.place == three.place != two.place
    assert not one.place.exists()
    assert three.known == {"pykraft": {"rate": 1.0, "p50_ms": 0.333333}}


def test_what_the_file_has_is_not_run_again(tmp_path: Path) -> None:
    counter = Counter()
    cases = [case("one", pykraft=counter, other=counter)]
    run_suite(cases, options(tmp_path, 1, "pykraft"), Results(tmp_path / "r.jsonl", {}), Lines())
    assert len(counter.settings) == 1
    results = Results(tmp_path / "r.jsonl", {})
    run_suite(cases, options(tmp_path, 2), results, Lines())
    assert [(run.contender, run.turn) for run in results.runs] == [
        ("pykraft", 1),
        ("other", 1),
        ("pykraft", 2),
        ("other", 2),
    ]


def test_a_machine_without_go_leaves_these_peers_out_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("lab.benchmarks.suite.peers.GO_PLACES", ())
    results, told, counter = Results(tmp_path / "r.jsonl", {}), Lines(), Counter()
    for _ in range(2):
        run_suite([case("one", pykraft=counter, etcd=fail)], options(tmp_path, 1), results, told)
    assert told.stages[0].startswith("etcd is left out: there is no go on the PATH; on Debian: apt-get install golang")
    assert [(run.case, run.contender) for run in results.runs] == [(EVERY_CASE, "etcd"), ("one", "pykraft")]


def test_an_unknown_contender_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--contenders kafak: these cases have no such contender"):
        run_suite([case("one", pykraft=fail)], options(tmp_path, 1, "kafak"), Results(tmp_path / "r", {}), Lines())


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
