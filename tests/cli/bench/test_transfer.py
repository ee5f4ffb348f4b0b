"""`pykraft bench transfer`: wrong input is one line; figures as text and as JSON; a passed limit is exit code 1."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.bench.test_transfer import GOOD
from tests.cli.bench_command import check_one_line, pretend, run


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--nodes", "1"], "--nodes 1: give 2 to 9"),
        (["--nodes", "10"], "--nodes 10: give 2 to 9"),
        (["--runs", "0"], "--runs 0: give 1 to 100"),
        (["--throughput", "0"], "--throughput 0: give 1 to"),
        (["--record-size", "19"], "--record-size 19: give 20 to 1048576"),
        (["--dir", "no-such-folder"], "--dir no-such-folder: there is no such folder"),
    ],
)
def test_wrong_input_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], problem: str
) -> None:
    check_one_line(monkeypatch, capsys, ["transfer", *arguments], problem)


def test_figures_are_text(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pretend(monkeypatch, "transfer", GOOD)
    assert run(monkeypatch, "transfer", "--dir", str(tmp_path)) == 0
    assert capsys.readouterr().out.splitlines() == [
        "until it leads     50 / 199 / 300 ms (minimum, median, maximum)",
        "nothing committed  80 / 210 / 330 ms (minimum, median, maximum)",
        "went elsewhere     1 of 4",
        "acknowledged       1,000 records, none missing",
    ]
    assert list(tmp_path.iterdir()) == []


def test_figures_are_json_and_a_passed_limit_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pretend(monkeypatch, "transfer", replace(GOOD, took_ms=(250.0,)))
    assert run(monkeypatch, "transfer", "--json") == 1
    said = capsys.readouterr()
    document = json.loads(said.out)
    assert document["took_ms"] == [250.0]
    assert document["failures"] == ["the median of the transfers took 250 ms, 200 ms or more"]
    assert document["machine"]["cores"] >= 1


def test_a_quorum_that_gives_nothing_away(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pretend(monkeypatch, "transfer", replace(GOOD, took_ms=(), pause_ms=(), missed=4))
    assert run(monkeypatch, "transfer") == 1
    assert capsys.readouterr().out.splitlines()[0] == "until it leads     never"
