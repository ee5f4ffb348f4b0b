"""Runs the commands of `pykraft bench` in this process, with a fake measurement."""

from __future__ import annotations

import sys

import pytest

from pykraft.cli.main import main


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int | str | None:
    """The exit status of `pykraft bench` with these arguments."""
    monkeypatch.setattr(sys, "argv", ["pykraft", "bench", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code


def pretend(monkeypatch: pytest.MonkeyPatch, name: str, result: object) -> None:
    """Nothing is started; this comes of `pykraft bench name`, or is raised."""

    def measure(*_: object) -> object:
        if isinstance(result, BaseException):
            raise result
        return result

    monkeypatch.setattr(f"pykraft.bench.{name}.{name}", measure)


def check_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], problem: str
) -> None:
    """These arguments end with 2, and this is in the only line."""
    assert run(monkeypatch, *arguments) == 2
    said = capsys.readouterr()
    assert problem in said.err
    assert said.err.count("\n") == 1
    assert said.out == ""
