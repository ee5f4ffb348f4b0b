"""What a terminal shows of what was written to it, lines that a command wrote and took back left out."""

import re

_TOKEN = re.compile(
    r"\x1b\[(?P<count>\d*)(?P<verb>[a-zA-Z])|\x1b\[\?\d+[hl]|(?P<control>[\r\n])|(?P<text>[^\x1b\r\n]+)"
)


class Screen:
    """Lines of unlimited width, none of which scrolls away.

    It knows carriage return and line feed, "cursor up" (CSI A) and "erase the whole line" (CSI 2K). Colours and all
    other escapes change nothing.
    """

    def __init__(self) -> None:
        self._lines = [""]
        self._row = self._column = 0
        self._new_rows: set[int] = set()

    def write(self, data: bytes) -> None:
        """Show this after all that was written before."""
        for token in _TOKEN.finditer(data.decode(errors="replace")):
            if (text := token["text"]) is not None:
                line = self._lines[self._row].ljust(self._column)
                self._lines[self._row] = line[: self._column] + text + line[self._column + len(text) :]
                self._column += len(text)
                self._new_rows.add(self._row)
            elif token["control"] == "\r":
                self._column = 0
            elif token["control"] == "\n":
                self._row += 1
                self._lines += [""] * (self._row + 1 - len(self._lines))
            elif token["verb"] == "A":
                self._row = max(0, self._row - int(token["count"] or 1))
            elif token["verb"] == "K" and token["count"] == "2":
                self._lines[self._row] = ""

    def mark(self) -> None:
        """From now on, lines are new when something is written to them."""
        self._new_rows.clear()

    def new_lines(self) -> list[str]:
        """Those that were written to since the mark and still show something, from the top."""
        return [self._lines[row] for row in sorted(self._new_rows) if self._lines[row].strip()]
