"""Renders tables as text for a terminal or a pipe.

Invariant: a cell is never cut or split. A table that is wider than its terminal is printed as one block per row.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

_NUMBER: Final = re.compile(r"[-+]?[0-9][0-9.,]*")
_NOTHING: Final = ("", "-")


def terminal_width() -> int | None:
    """Columns of the terminal that standard output is; None if it is none, as in a pipe."""
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    return shutil.get_terminal_size().columns if is_terminal else None


def is_numeric(cells: Sequence[str]) -> bool:
    """Whether these cells are numbers (or nothing), which are aligned to the right."""
    return all(cell in _NOTHING or _NUMBER.fullmatch(cell) for cell in cells) and any(map(_NUMBER.fullmatch, cells))


def table_lines(heads: Sequence[str], rows: Iterable[Sequence[str]], *, width: int | None = None) -> Iterator[str]:
    """A line for the heads and for each row; or, if one of them is longer than ``width``, `block_lines`."""
    rows = [tuple(row) for row in rows]
    columns = list(zip(heads, *rows, strict=True))
    sizes = [max(map(len, column)) for column in columns]
    are_numbers = [is_numeric(column[1:]) for column in columns]
    lines = []
    for row in (heads, *rows):
        cells = zip(row, sizes, are_numbers, strict=True)
        lines.append("  ".join(cell.rjust(size) if right else cell.ljust(size) for cell, size, right in cells).rstrip())
    if width is not None and max(map(len, lines)) > width:
        yield from block_lines(heads, rows)
    else:
        yield from lines


def block_lines(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A block of lines for each row, a line for each cell; with two columns, one line for each row."""
    for row in rows:
        if len(heads) == 2:  # name and value
            yield f"{row[0]}: {row[1]}"
            continue
        for at, (head, cell) in enumerate(zip(heads, row, strict=True)):
            if cell not in _NOTHING:
                yield ("  " if at else "") + (f"{head}: {cell}" if head else cell)
