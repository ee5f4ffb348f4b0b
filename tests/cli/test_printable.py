"""No text from outside can move the cursor."""

from __future__ import annotations

import pytest

from pykraft.cli.printable import printable


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
