"""Tables with a frame: at every width each number is whole."""

from __future__ import annotations

import pytest

from pykraft.cli.tables import print_table

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
