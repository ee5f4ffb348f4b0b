"""Puts a table between its markers in a document: ``<!-- NAME -->`` and ``<!-- end NAME -->``."""

from __future__ import annotations

import re


def filled(text: str, name: str, table: str) -> str:
    """The document with this table in place of what stands between the markers of this name."""
    marked = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end {name} -->)", re.DOTALL)
    return marked.sub(lambda found: f"{found[1]}\n{table}\n\n{found[2]}", text)
