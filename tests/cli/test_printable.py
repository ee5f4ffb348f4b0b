"""No text from outside can move the cursor, every number of a table is whole, and a wait shows on a terminal only."""

import io
import sys

import pytest

from pykraft.cli.printable import WaitingLine, print_table, printable


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"plain", "plain"),
        ("grün €", "grün €"),
        (b"\x1b[2J\n\t", r"\x1b[2J\n\t"),
        (b"\xff\0a", r"\xff\x00a"),
        ("\u202eright to left", r"\u202eright to left"),
        (memoryview(b"view"), "view"),
        (b"", ""),
    ],
)
def test_what_does_not_print_is_escaped(data: bytes | str, shown: str) -> None:
    assert printable(data) == shown


HEADS = ("epoch", "first offset", "begun", "records", "gap before, ms")
ROWS = [
    ("1", "0", "2026-11-22 12:00:00.123", "1,234,567", ""),
    ("12", "1234567", "2026-11-22 12:34:56.789", "98,765,432", "1234"),
]


def printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], width: int | None) -> str:
    """What a terminal of this width shows; None: what a pipe gets."""
    if width is None:
        monkeypatch.setenv("COLUMNS", "30")
    else:
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("NO_COLOR", "1")
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("COLUMNS", str(width))
    print_table("what the log of [n1] holds", HEADS, ROWS)
    return capsys.readouterr().out


@pytest.mark.parametrize("width", [None, 80, 200])
def test_a_table_that_fits_is_framed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], width: int | None
) -> None:
    text = printed(monkeypatch, capsys, width)
    assert "what the log of [n1] holds" in text
    lines = text.splitlines()
    for row in (HEADS, *ROWS):
        assert len([line for line in lines if all(cell in line for cell in row)]) == 1
    assert "│" in lines[-2]


@pytest.mark.parametrize("width", [20, 40, 60])
def test_a_table_that_does_not_fit_is_a_block_for_each_row(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], width: int
) -> None:
    assert printed(monkeypatch, capsys, width).splitlines()[:7] == [
        "what the log of [n1] holds:",
        "epoch: 1",
        "  first offset: 0",
        "  begun: 2026-11-22 12:00:00.123",
        "  records: 1,234,567",
        "epoch: 12",
        "  first offset: 1234567",
    ]


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
    line.show(None)
    line.show("a:1: it knows no \x1b leader")
    line.show("b:1: [bold]Connection refused")
    line.show(None)
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
    WaitingLine().show("a:1: it knows no leader")
