"""Tables of text: aligned, and never cut."""

import io
import os

import pytest

from pykraft.text.table import block_lines, folded, is_numeric, table_lines, terminal_width

HEADS = ("fault", "times", "ms")
ROWS = (("kill", "1,234", "5"), ("power loss", "7", "-"))
ALIGNED = ["fault       times  ms", "kill        1,234   5", "power loss      7   -"]


@pytest.mark.parametrize("width", [None, 21, 200])
def test_a_table_that_fits_has_columns(width: int | None) -> None:
    assert list(table_lines(HEADS, ROWS, width=width)) == ALIGNED


def test_a_table_that_does_not_fit_is_a_block_for_each_row() -> None:
    blocks = ["fault: kill", "  times: 1,234", "  ms: 5", "fault: power loss", "  times: 7"]
    assert list(table_lines(HEADS, ROWS, width=20)) == blocks


def test_a_last_column_of_text_is_folded_below_itself() -> None:
    rows = [("kill", "7", "leader 4, observer 3, follower 2, unattached 2"), ("split", "1", "")]
    assert list(table_lines(("fault", "times", "happened to"), rows, width=40)) == [
        "fault  times  happened to",
        "kill       7  leader 4, observer 3,",
        "              follower 2, unattached 2",
        "split      1",
    ]
    assert next(table_lines(("fault", "times", "happened to"), rows, width=37)) == "fault: kill"


def test_prose_is_folded_between_words() -> None:
    line = "  note: /a/path-with/hyphens: 5 bytes do not count"
    assert folded(line, None) == folded(line, len(line)) == [line]
    assert folded(line, 24) == ["  note:", "    /a/path-with/hyphens:", "    5 bytes do not count"]


def test_name_and_value_are_one_line() -> None:
    assert list(block_lines(("what", "value"), [("records", "5"), ("bytes", "60")])) == ["records: 5", "bytes: 60"]


def test_a_column_without_a_head_names_its_row() -> None:
    assert list(block_lines(("", "a", "b"), [("ours", "1", "2")])) == ["ours", "  a: 1", "  b: 2"]


@pytest.mark.parametrize(
    ("cells", "is_so"), [(["1", "-2.5", ""], True), (["1,000", "-"], True), (["-", ""], False), (["1", "a"], False)]
)
def test_numbers_are_recognized(cells: list[str], is_so: bool) -> None:
    assert is_numeric(cells) is is_so


def test_a_pipe_has_no_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", io.StringIO())
    assert terminal_width() is None
    monkeypatch.setattr("sys.stdout", None)
    assert terminal_width() is None


def test_a_terminal_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    _, terminal = os.openpty()
    monkeypatch.setenv("COLUMNS", "44")
    with os.fdopen(terminal, "w") as file:
        monkeypatch.setattr("sys.stdout", file)
        assert terminal_width() == 44
