"""Prints prose on a terminal, and escapes untrusted bytes for it.

Unprintable characters become escapes as in a Python string, so that no record, name or file can move the cursor, clear
the screen or hide a line.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import click

from pykraft.text.table import folded, terminal_width
from pykraft.types import Buffer

_REMEMBERED_MAX: Final = 4_096


class _Shown(dict[int, str]):
    """How each character is shown, by code point; caches the first few thousand."""

    def __missing__(self, code: int) -> str:
        one = chr(code)
        shown = one if one.isprintable() else one.encode("unicode_escape").decode("ascii")
        if len(self) < _REMEMBERED_MAX:
            self[code] = shown
        return shown


_SHOWN: Final = _Shown()


def printable(data: Buffer | str) -> str:
    """The text of UTF-8 bytes; invalid UTF-8 and unprintable characters are escaped."""
    text = data if isinstance(data, str) else str(data, "utf-8", "backslashreplace")
    return text if text.isprintable() else text.translate(_SHOWN)


def print_lines(lines: Iterable[str]) -> None:
    """Print lines of prose; a terminal gets them folded between words, a pipe as they are."""
    width = terminal_width()
    for line in lines:
        click.echo("\n".join(folded(line, width)))
