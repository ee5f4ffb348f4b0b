"""Bytes from elsewhere as text that a terminal only prints.

Owns the escaping: what is not printable becomes an escape as in a Python string, so no record, name or file can move
the cursor, clear the screen or hide a line. It refuses to know where the bytes are from.
"""

from __future__ import annotations

from pykraft.types import Buffer


def printable(data: Buffer | str) -> str:
    """The text of UTF-8 bytes; what is no UTF-8 and what does not print is escaped."""
    text = data if isinstance(data, str) else str(data, "utf-8", "backslashreplace")
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in text)
