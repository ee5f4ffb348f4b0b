"""Reads table.toml: which commands are shortened or not run, and what each page needs.

Invariant: the table is read strictly, and `tests/documented/test_page.py` refuses a row that fits nothing.
"""

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tests.documented.blocks import Block

NOT_RUN_MAX = 10


@dataclass(frozen=True)
class NotRun:
    """Commands that CI does not run: those that begin with ``starts``, on one page or on every page, and why."""

    starts: tuple[str, ...]
    why: str
    page: str = ""

    def fits(self, page: str, command: str) -> bool:
        """True for a command of this row."""
        return self.page in {"", page} and f"{command.strip()} ".startswith(tuple(f"{start} " for start in self.starts))


@dataclass(frozen=True)
class Shortened:
    """Words that are replaced before a command runs, on one page or on every page, because it would take too long."""

    printed: str
    runs: str
    why: str
    page: str = ""

    def fits(self, page: str, command: str) -> bool:
        """True for a command of this row."""
        return self.page in {"", page} and self.printed in command


@dataclass(frozen=True)
class Sample:
    """A `text` block that no block before it prints, such as a log line. ``words`` of it stand in ``file``, too."""

    starts: str
    page: str
    why: str
    words: tuple[str, ...] = ()
    file: str = ""

    def fits(self, block: Block) -> bool:
        """True for the block of this row."""
        return block.page == self.page and block.text.startswith(self.starts)


@dataclass(frozen=True)
class Stays:
    """Commands that run until they are interrupted. The next one runs when ``ready`` is in their output, or at once."""

    words: str
    ready: str = ""


@dataclass(frozen=True)
class Eventually:
    """Commands of a page that are repeated until they succeed, as a reader would after a moment, and why."""

    page: str
    starts: str
    why: str


@dataclass(frozen=True)
class Page:
    """How a page is run: the stage of CI, what a reader has done before, and where each command ends the one before.

    The programs of a notebook run as one, where the last of them stands. A reader has saved the files of the pages in
    ``after``, without running their commands.
    """

    path: str
    stage: str = "processes"
    after: tuple[str, ...] = ()
    given: str = ""
    given_why: str = ""
    alternatives: tuple[str, ...] = ()
    timeout_s: float = 300.0
    is_notebook: bool = False


@dataclass(frozen=True)
class Table:
    """All rows."""

    not_run: tuple[NotRun, ...] = ()
    shortened: tuple[Shortened, ...] = ()
    sample: tuple[Sample, ...] = ()
    stays: tuple[Stays, ...] = ()
    eventually: tuple[Eventually, ...] = ()
    page: tuple[Page, ...] = ()
    by_path: dict[str, Page] = field(default_factory=dict)

    def of(self, path: str) -> Page:
        """The row of a page, or the defaults."""
        return self.by_path.get(path, Page(path))

    def refusal(self, page: str, command: str) -> NotRun | None:
        """The row that says why this command is not run, or None."""
        return next((row for row in self.not_run if row.fits(page, command)), None)

    def as_run(self, page: str, command: str) -> str:
        """The command with its replacements."""
        for row in self.shortened:
            if row.fits(page, command):
                command = command.replace(row.printed, row.runs)
        return command

    def stay(self, command: str) -> Stays | None:
        """The row of a command that runs until it is interrupted, or None."""
        words = command.split("#", maxsplit=1)[0].split() if "\n" not in command else []
        if "-daemon" in words or "--max-records" in words or words[-1:] == ["&"] or "|" in words:
            return None
        return next((row for row in self.stays if _in_order(row.words.split(), words)), None)

    def is_repeated(self, page: str, command: str) -> bool:
        """True for a command that is repeated until it succeeds."""
        return any(row.page == page and command.startswith(row.starts) for row in self.eventually)

    def sampled(self, block: Block) -> Sample | None:
        """The row of a `text` block that is not compared, or None."""
        return next((row for row in self.sample if row.fits(block)), None)


def _in_order(wanted: Iterable[str], words: list[str]) -> bool:
    remaining = iter(words)
    return all(word in remaining for word in wanted)


@cache
def table() -> Table:
    """The table of this folder."""
    content: dict[str, list[dict[str, Any]]] = tomllib.loads((Path(__file__).parent / "table.toml").read_text())
    pages = tuple(
        Page(**{**row, "after": tuple(row.get("after", ())), "alternatives": tuple(row.get("alternatives", ()))})
        for row in content["page"]
    )
    return Table(
        not_run=tuple(NotRun(**{**row, "starts": tuple(row["starts"])}) for row in content["not_run"]),
        shortened=tuple(Shortened(**row) for row in content["shortened"]),
        sample=tuple(Sample(**{**row, "words": tuple(row.get("words", ()))}) for row in content["sample"]),
        stays=tuple(Stays(**row) for row in content["stays"]),
        eventually=tuple(Eventually(**row) for row in content["eventually"]),
        page=pages,
        by_path={row.path: row for row in pages},
    )
