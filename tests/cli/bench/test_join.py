"""`pykraft bench join`: wrong input is one line; figures as text and as JSON; a passed limit is exit code 1."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.bench.test_join import GOOD
from tests.cli.bench_command import check_one_line, pretend, run


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--snapshot-mib", "0"], "--snapshot-mib 0: give 1 to 1048576"),
        (["--throughput", "-1"], "--throughput -1: give 1 to"),
        (["--record-size", "19"], "--record-size 19: give 20 to 1048576"),
        (["--seconds", "0"], "--seconds 0: give 0.5 to 3600"),
        (["--seconds", "nan"], "--seconds nan: give 0.5 to 3600"),
        (["--dir", "no-such-folder"], "--dir no-such-folder: there is no such folder"),
    ],
)
def test_wrong_input_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], problem: str
) -> None:
    check_one_line(monkeypatch, capsys, ["join", *arguments], problem)


def test_figures_are_text(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pretend(monkeypatch, "join", GOOD)
    assert run(monkeypatch, "join", "--dir", str(tmp_path)) == 0
    assert capsys.readouterr().out.splitlines() == [
        "snapshot           1,024 MiB in 10.0 s (107 MB/s), 0.5 s more for the log",
        "peak memory        60 MiB new node, 50 MiB leader (40 before)",
        "commits before     p50 10 ms, p99 20 ms",
        "commits during     p50 10 ms, p99 20 ms: p99 × 1.00",
        "acknowledged       1,000 records, none missing",
    ]
    assert list(tmp_path.iterdir()) == []


def test_figures_are_json_and_a_passed_limit_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pretend(monkeypatch, "join", replace(GOOD, leader_memory_mib=200.0))
    assert run(monkeypatch, "join", "--json") == 1
    said = capsys.readouterr()
    document = json.loads(said.out)
    assert document["slowdown"] == 1.0
    assert document["failures"] == ["the leader used 200 MiB"]
    assert document["machine"]["cores"] >= 1
    assert said.err.endswith("FAILED the leader used 200 MiB\n")
