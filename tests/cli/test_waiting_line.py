"""What a command waits for is told on a terminal, and nowhere else."""

from __future__ import annotations

import io
import sys

import pytest

from pykraft.cli.waiting_line import WaitingLine


class Screen(io.StringIO):
    """A terminal, or not."""

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


def shown(monkeypatch: pytest.MonkeyPatch, *, is_terminal: bool) -> str:
    screen = Screen(is_terminal=is_terminal)
    monkeypatch.setenv("TERM", "xterm")
    for name in ("stderr", "__stderr__"):
        monkeypatch.setattr(sys, name, screen)
    line = WaitingLine()
    line.tell(None)
    line.tell("a:1: it knows no \x1b leader")
    line.tell("b:1: [bold]Connection refused")
    line.tell(None)
    return screen.getvalue()


def test_a_terminal_sees_it_as_long_as_it_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(monkeypatch, is_terminal=True)
    assert "waiting for a leader, 0 s: " in text
    assert "b:1: [bold]Connection refused" in " ".join(text.split())
    erase_line = "\x1b[2K"
    assert erase_line in text.rsplit("refused", 1)[1]


def test_a_pipe_sees_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not shown(monkeypatch, is_terminal=False)


def test_without_standard_error_there_is_nobody_to_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "__stderr__", None)
    WaitingLine().tell("a:1: it knows no leader")
