"""`pykraft bench transfer`: wrong input is one line; figures as text and as JSON; a passed limit is exit code 1."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pykraft.bench.transfer import Transferred
from pykraft.cli.main import main
from pykraft.errors import LocalQuorumError
from tests.bench.test_transfer import GOOD


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int | str | None:
    """The exit status of `pykraft bench transfer` with these arguments."""
    monkeypatch.setattr(sys, "argv", ["pykraft", "bench", "transfer", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code


def pretend(monkeypatch: pytest.MonkeyPatch, result: Transferred | BaseException) -> None:
    """Nothing is started; this comes of it."""

    def transfer(*_: object) -> Transferred:
        if isinstance(result, BaseException):
            raise result
        return result

    monkeypatch.setattr("pykraft.bench.transfer.transfer", transfer)


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
    assert run(monkeypatch, *arguments) == 2
    said = capsys.readouterr()
    assert problem in said.err
    assert said.err.count("\n") == 1
    assert said.out == ""


def test_figures_are_text(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pretend(monkeypatch, GOOD)
    assert run(monkeypatch, "--dir", str(tmp_path)) == 0
    assert capsys.readouterr().out.splitlines() == [
        "until it leads     50 / 199 / 300 ms (least, median, most)",
        "nothing committed  80 / 210 / 330 ms (least, median, most)",
        "went elsewhere     1 of 4",
        "acknowledged       1,000 records, and all are there",
    ]
    assert list(tmp_path.iterdir()) == []


def test_figures_are_json_and_a_passed_limit_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pretend(monkeypatch, replace(GOOD, took_ms=(250.0,)))
    assert run(monkeypatch, "--json") == 1
    said = capsys.readouterr()
    document = json.loads(said.out)
    assert document["took_ms"] == [250.0]
    assert document["failures"] == ["the median of the transfers took 250 ms, 200 ms or more"]
    assert document["machine"]["cores"] >= 1


def test_a_quorum_that_gives_nothing_away(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pretend(monkeypatch, replace(GOOD, took_ms=(), pause_ms=(), missed=4))
    assert run(monkeypatch) == 1
    assert capsys.readouterr().out.splitlines()[0] == "until it leads     never"


@pytest.mark.parametrize(("problem", "status"), [(LocalQuorumError("node 1 died"), 1), (KeyboardInterrupt(), 1)])
def test_a_run_that_ends_early(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], problem: BaseException, status: int
) -> None:
    pretend(monkeypatch, problem)
    assert run(monkeypatch) == status
    assert ("node 1 died" if isinstance(problem, Exception) else "interrupted") in capsys.readouterr().err
