"""The command: its lists, its refusals, and one short suite with real processes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lab.benchmarks.suite.__main__ import main
from lab.benchmarks.suite.cases import all_cases
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
