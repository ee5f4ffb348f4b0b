"""`pykraft demo`: wrong input is one line and exit code 2; what was written is kept only when somebody needs it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pykraft.cli.main import main


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int | str | None:
    """The exit status of `pykraft demo` with these arguments."""
    monkeypatch.setattr(sys, "argv", ["pykraft", "demo", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code


def test_without_spark_it_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pykraft.spark.demo.run", None)
    assert run(monkeypatch) == 2
    assert "run bin/demo, or pip install 'pykraft[spark]'" in capsys.readouterr().err


def test_an_unknown_option_is_shown_with_the_usage(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "--secnds", "3") == 2
    assert "--secnds" in capsys.readouterr().err


@pytest.mark.spark
@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--seconds", "1"), "pykraft: --seconds 1: give 2 to 86400\n"),
        (("--nodes", "1", "--kill-leader"), "pykraft: --kill-leader needs --nodes 3 or more: 1 cannot go on"),
        (("--record-size", "3"), "pykraft: --record-size 3: a record holds"),
        (("--json", "{folder}/absent/o.json"), "--json {folder}/absent/o.json: there is no folder {folder}/absent"),
        (("--data", "{folder}"), "--data {folder}: it is not empty"),
    ],
)
def test_wrong_input_is_one_line_and_status_2(
    arguments: tuple[str, ...],
    problem: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    (tmp_path / "something").touch()
    assert run(monkeypatch, *(word.format(folder=tmp_path) for word in arguments)) == 2
    said = capsys.readouterr().err
    assert problem.format(folder=tmp_path) in said
    assert said.count("\n") == 1
    assert "Traceback" not in said
