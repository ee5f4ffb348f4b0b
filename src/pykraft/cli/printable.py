"""What commands print for people: prose, tables with a frame, and what is waited for.

`printable` escapes unprintable characters, as in a Python string, so that no record, name or file can move the cursor,
clear the screen or hide a line. Invariants: no cell of a table is cut, whatever the width of the terminal; a line about
a wait is only on a terminal, and gone afterwards. rich is imported when it draws: it takes a tenth of a second.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

import click

from pykraft.text.table import block_lines, folded, is_numeric, terminal_width
from pykraft.types import Buffer

_UNLIMITED: Final = 1_000_000


def print_table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], *, stderr: bool = False) -> None:
    """Print the title and the rows; numbers are aligned to the right."""
    from rich.console import Console
    from rich.markup import escape
    from rich.measure import Measurement
    from rich.table import Table

    console = Console(stderr=stderr, highlight=False)
    table = Table(title=escape(title))
    for at, (head, *cells) in enumerate(zip(heads, *rows, strict=True)):
        # In a table of two columns, names and values, the values are aligned to the right, too: most are numbers.
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


if TYPE_CHECKING:  # rich takes a tenth of a second to import, and most commands never wait
    from rich.status import Status


class WaitingLine:
    """One line on a terminal; `show` is a `pykraft.client.remote.leader_search.OnWaiting`."""

    def __init__(self) -> None:
        self._status: Status | None = None
        self._begun_s = 0.0

    def show(self, story: str | None) -> None:
        """Show that there is no leader, for how long, and what is wrong with each node; None takes the line away."""
        if story is None:
            if self._status is not None:
                self._status.stop()
                self._status = None
            return
        if sys.__stderr__ is None or not sys.__stderr__.isatty():
            return
        from rich.console import Console
        from rich.status import Status
        from rich.text import Text

        if self._status is None:
            self._begun_s = time.monotonic()
            self._status = Status("", console=Console(stderr=True))
            self._status.start()
        waited_s = time.monotonic() - self._begun_s
        self._status.update(Text(f"waiting for a leader, {waited_s:.0f} s: {printable(story)}"))
