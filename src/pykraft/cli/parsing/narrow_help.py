"""Help for narrow terminals: where two columns have no room, the help of an option is below it.

click keeps two columns, and lines of at least 50, at any width: at 40 it split words into pieces of ten letters.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from typing import Final

import click

TWO_COLUMNS_WIDTH_MIN: Final = 60
WIDTH_MIN: Final = 20
WIDTH_MAX: Final = 80


class HelpText(click.HelpFormatter):
    """A help text of any width."""

    def __init__(self, indent_increment: int = 2, width: int | None = None, max_width: int | None = None) -> None:
        if width is None:  # as click has it, but for its least width of 50
            width = max(min(shutil.get_terminal_size().columns, max_width or WIDTH_MAX) - 2, WIDTH_MIN)
        super().__init__(indent_increment, width, max_width)

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        """See `click.HelpFormatter`."""
        if self.width >= TWO_COLUMNS_WIDTH_MIN:
            super().write_dl(rows, col_max, col_spacing)
            return
        for name, text in rows:
            self.write_text(name)
            with self.indentation():
                self.write_text(text)


class CommandContext(click.Context):
    """The context of every command."""

    formatter_class = HelpText
