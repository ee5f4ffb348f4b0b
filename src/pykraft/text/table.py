"""Renders tables and prose as text for a terminal or a pipe.

Invariant: a cell or a word is never cut or split. A table that is wider than its terminal is printed as one block per
row.
"""

import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from textwrap import wrap
from typing import Final

_NUMBER: Final = re.compile(r"[-+]?[0-9][0-9.,]*")
FOLDED_WIDTH_MIN: Final = 24
"""Least width to which the last column is folded."""
_NOTHING: Final = ("", "-")


def terminal_width() -> int | None:
    """Columns of the terminal that standard output is; None if it is none, as in a pipe."""
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    return shutil.get_terminal_size().columns if is_terminal else None


def folded(line: str, width: int | None) -> list[str]:
    """A line of prose in lines of at most ``width``, the later ones indented; a word that is longer stays whole.

    A terminal would break it within a word.
    """
    if width is None or len(line) <= width:
        return [line]
    indent = line[: len(line) - len(line.lstrip())] + "  "
    return wrap(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def is_numeric(cells: Sequence[str]) -> bool:
    """Whether these cells are numbers (or nothing), which are aligned to the right."""
    return all(cell in _NOTHING or _NUMBER.fullmatch(cell) for cell in cells) and any(map(_NUMBER.fullmatch, cells))


def table_lines(heads: Sequence[str], rows: Iterable[Sequence[str]], *, width: int | None = None) -> Iterator[str]:
    """A line for the heads and for each row.

    If one of them is longer than ``width``, a last column of text is folded, if enough room is left for it; otherwise
    the table is printed as `block_lines`.
    """
    rows = [tuple(row) for row in rows]
    columns = list(zip(heads, *rows, strict=True))
    sizes = [max(map(len, column)) for column in columns]
    are_numbers = [is_numeric(column[1:]) for column in columns]
    whole = sum(sizes) + 2 * (len(sizes) - 1)
    room = sizes[-1] if width is None or whole <= width else width - (whole - sizes[-1])
    if room < sizes[-1] and (are_numbers[-1] or room < FOLDED_WIDTH_MIN):
        yield from block_lines(heads, rows)
        return
    for row in (heads, *rows):
        cells = list(zip(row, sizes, are_numbers, strict=True))
        start = "".join((cell.rjust(size) if right else cell.ljust(size)) + "  " for cell, size, right in cells[:-1])
        last, size, right = cells[-1]
        for part in wrap(last, room) if room < size else [last.rjust(size) if right else last]:
            yield (start + part).rstrip()
            start = " " * len(start)
        if room < size and not last:
            yield start.rstrip()


def block_lines(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A block of lines for each row, a line for each cell; with two columns, one line for each row."""
    for row in rows:
        if len(heads) == 2:  # name and value
            yield f"{row[0]}: {row[1]}"
            continue
        for at, (head, cell) in enumerate(zip(heads, row, strict=True)):
            if cell not in _NOTHING:
                yield ("  " if at else "") + (f"{head}: {cell}" if head else cell)
