"""A file of results survives a kill, and a suite goes on where it stopped."""

import json
from pathlib import Path

import pytest

from lab.benchmarks.suite.results import Results, SuiteRun
from pykraft.errors import UsageError

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
