"""The screen on which the test of stops looks."""

from __future__ import annotations

from tests.processes.screen import Screen


def lines_after(before: bytes, after: bytes) -> list[str]:
    screen = Screen()
    screen.write(before)
    screen.mark()
    screen.write(after)
    return screen.new_lines()


def test_only_what_was_written_since_the_mark_is_new() -> None:
    assert lines_after(b"one\r\ntwo\r\n", b"three\r\n\r\nfour") == ["three", "four"]


def test_lines_that_were_taken_back_do_not_show() -> None:
    again = b"\r\x1b[2K\x1b[1A\x1b[2K\x1b[32mwaits\x1b[0m\r\nstill\r\n"
    assert lines_after(b"\x1b[?25lwaits\r\nstill", again + b"\x1b[1A\x1b[2K\x1b[1A\x1b[2K\x1b[?25hended\r\n") == [
        "ended"
    ]


def test_what_stays_of_them_does() -> None:
    again = b"\r\x1b[2K\x1b[1A\x1b[2Kwaits\r\nstill\r\n"
    assert lines_after(b"waits\r\nstill", again + b"\x1b[1A\x1b[2Kended\r\n") == ["waits", "ended"]


def test_text_replaces_what_was_in_its_columns() -> None:
    assert lines_after(b"", b"abcdef\rxy\r\n") == ["xycdef"]


def test_above_the_first_line_is_nothing() -> None:
    assert lines_after(b"one", b"\x1b[5A\r\x1b[2Ktwo") == ["two"]
