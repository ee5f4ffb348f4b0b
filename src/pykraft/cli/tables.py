"""Prints a result as a table with a frame; rich draws it.

Invariant: no cell is cut. A table that is wider than its terminal is printed as lines instead, and one that goes into a
pipe is as wide as it needs, whatever the width of any terminal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table

from pykraft.text.table import block_lines, is_numeric

_UNLIMITED: Final = 1_000_000


def print_table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], *, stderr: bool = False) -> None:
    """Print the title and the rows; numbers are aligned to the right."""
    console = Console(stderr=stderr, highlight=False)
    table = Table(title=escape(title))
    for at, (head, *cells) in enumerate(zip(heads, *rows, strict=True)):
        # The values of names and values are aligned to the right, too: most are numbers.
        is_right = is_numeric(cells) or (len(heads) == 2 and at == 1)
        table.add_column(escape(head), justify="right" if is_right else "left", no_wrap=True)
    for row in rows:
        table.add_row(*map(escape, row))
    width = Measurement.get(console, console.options.update_width(_UNLIMITED), table).maximum
    if not console.is_terminal:
        console.width = max(width, len(title))
    elif width > console.width:
        for line in (f"{title}:", *block_lines(heads, rows)):
            console.print(escape(line), soft_wrap=True)
        return
    console.print(table)
