"""Bytes from elsewhere as text that a terminal only prints.

Owns the escaping: what is not printable becomes an escape as in a Python string, so no record, name or file can move
the cursor, clear the screen or hide a line. It refuses to know where the bytes are from.
"""

from __future__ import annotations

from typing import Final

from pykraft.types import Buffer

_REMEMBERED_MAX: Final = 4_096


class _Shown(dict[int, str]):
    """Characters as they are shown, by code point; the first few thousand that came are remembered."""

    def __missing__(self, code: int) -> str:
        one = chr(code)
        shown = one if one.isprintable() else one.encode("unicode_escape").decode("ascii")
        if len(self) < _REMEMBERED_MAX:
            self[code] = shown
        return shown


_SHOWN: Final = _Shown()


def printable(data: Buffer | str) -> str:
    """The text of UTF-8 bytes; what is no UTF-8 and what does not print is escaped."""
    text = data if isinstance(data, str) else str(data, "utf-8", "backslashreplace")
    return text if text.isprintable() else text.translate(_SHOWN)
