"""Runs the blocks of one page in order, as a reader would who types them.

* `sh`: its commands, one after the other. One that stays (a server) gets a terminal of its own until the page ends.
* `python`: the program; one that names its file in the first line is saved, and a command of the page runs it.
* `properties`, `toml` and the like: saved under the name in the first line, for commands of the page.
* `text` after one of these: what it prints. Numbers, times and ids are masked; a line with `...` stands for any lines.
"""

import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.documented.blocks import FILES, Block, blocks
from tests.documented.table import Table, table
from tests.documented.terminal import OutOfTimeError, PageError, Terminal
from tests.tidy.repository import ROOT

Say = Callable[[str], None]

SHOWN_MAX = 1_000

MASKS = (
    (re.compile(r"\x1b\[[0-9;]*m"), ""),
    (re.compile(r"\b[A-Za-z0-9_-]{22}\b"), "ID"),
    (re.compile(r"\d+(?:[.,:]\d+)*"), "0"),
    (re.compile(r"\s+|[─│┌┐└┘━═-]{2,}"), " "),
)


def run_page(path: str, output: Path, say: Say, rows: Table | None = None) -> None:
    """Run all blocks of a page in the working directory; raise PageError at the first that does not hold.

    ``output`` is a folder for what the commands print.
    """
    rows = rows or table()
    row = rows.of(path)
    os.environ["PATH"] = f"{ROOT / 'bin'}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with _at_most(row.timeout_s), Terminal(output) as terminal:
        page = _PageRun(rows, terminal, say)
        for block in (each for earlier in row.after for each in blocks(earlier) if each.file_name):
            _write(block.file_name, block.text)
        if row.given:
            page.command(path, row.given)
        for block in blocks(path):
            try:
                page.block(block)
            except (PageError, OutOfTimeError) as error:
                raise PageError(f"{block.place}: {error}") from None
        terminal.interrupt()


@contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    def give_up(*_: object) -> None:
        raise OutOfTimeError(f"the page is not done after {seconds:.0f} s")

    signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


class _PageRun:
    def __init__(self, rows: Table, terminal: Terminal, say: Say) -> None:
        self._rows = rows
        self._terminal = terminal
        self._say = say
        self._printed: str | None = None
        self._cells = ""

    def block(self, block: Block) -> None:
        if block.language == "sh":
            self._run_commands(block)
        elif block.language == "text":
            self._compare(block)
        elif block.language in FILES:
            self._save(block)
        else:
            raise PageError(f"no one knows what to do with the language {block.language}")

    def _run_commands(self, block: Block) -> None:
        self._printed = ""
        row = self._rows.of(block.page)
        for command in block.commands:
            if self._rows.refusal(block.page, command):
                self._say(f"{block.place}: not run: {command}")
                continue
            if any(command.startswith(start) for start in row.alternatives):
                self._terminal.interrupt()
            repeated = self._rows.is_repeated(block.page, command)
            self._printed += self.command(block.place, self._rows.as_run(block.page, command), repeated=repeated)

    def command(self, place: str, command: str, *, repeated: bool = False) -> str:
        stay = self._rows.stay(command)
        began = time.monotonic()
        self._say(f"{place}: $ {command}")
        try:
            if stay:
                text = self._terminal.start(command, stay.ready)
            else:
                text = self._terminal.repeat(command) if repeated else self._terminal.run(command)
        except PageError as error:
            raise PageError(f"$ {command}\n{error}") from None
        shown = text if len(text) < SHOWN_MAX else f"{text[:SHOWN_MAX]}... and {len(text) - SHOWN_MAX} characters\n"
        self._say(f"{shown}[{time.monotonic() - began:.1f} s]")
        return text

    def _save(self, block: Block) -> None:
        name = block.file_name or (f"block_{block.line}.py" if block.language == "python" else "")
        if not name:
            raise PageError("a comment in its first line must name the file that it is: # NAME")
        _write(name, block.text)
        if not block.file_name:
            if self._rows.of(block.page).is_notebook:
                self._cells += block.text
                programs = [each for each in blocks(block.page) if each.language == "python" and not each.file_name]
                if block != programs[-1]:
                    return
                _write(name, self._cells)
            command = f"python {name}"
            repeated = self._rows.is_repeated(block.page, command)
            self._printed = self.command(block.place, command, repeated=repeated)

    def _compare(self, block: Block) -> None:
        if self._rows.sampled(block):
            return
        if self._printed is None:
            raise PageError("no block before it prints this; is it a row of `sample` in the table?")
        remaining = iter([masked(line) for line in self._printed.splitlines()])
        for line in block.text.splitlines():
            if line.strip() in {"...", "…", ""}:
                continue
            if masked(line) not in remaining:
                raise PageError(f"not printed (in this order): {line}\nprinted was:\n{self._printed}")


def _write(name: str, text: str) -> None:
    (ROOT / name).parent.mkdir(parents=True, exist_ok=True)
    (ROOT / name).write_text(text)


def masked(line: str) -> str:
    """The line with one blank for several, one 0 for a number or a time, and ID for an id of Kafka's."""
    for pattern, word in MASKS:
        line = pattern.sub(word, line)
    return line.strip()
