"""`pykraft pipeline report`: text, JSON and a page from tables; wrong input is refused before Spark starts."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pykraft.cli.main import main


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int | str | None:
    """The exit status of `pykraft pipeline report` in this process."""
    monkeypatch.setattr(sys, "argv", ["pykraft", "pipeline", "report", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code


def test_two_runs_need_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "--tables", "t", "--beside", str(tmp_path)) == 2
    assert "--beside shows two runs on a page: give --html, too" in capsys.readouterr().err
