"""What must hold, and whether a test must prove it: two lists, checked while they are read.

``lines.toml`` says what a correct replica does; its lines are numbered 1, 2, ... ``history.toml`` says what Kafka's
own commits taught; its rows are numbered H1, H2, ... and each names where it comes from.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

LINES = Path(__file__).parent / "lines.toml"
HISTORY = Path(__file__).parent / "history.toml"
REQUIRED = "required"
LATER = "later: "
STATES = (REQUIRED, f"{LATER}Kafka's client APIs")
NOT_OURS = "does not apply: "


Number = int | str
"""26 of the lines, "H12" of the history."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One behavior. ``open`` says what of a required line still waits, and for what; ``source`` is what taught it."""

    number: Number
    section: str
    statement: str
    state: str
    open: str | None = None
    source: str | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for a state that nobody would understand."""
        if self.state not in STATES and not (self.is_not_ours and len(self.state) > len(NOT_OURS)):
            raise ValueError(f"line {self.number}: unknown state {self.state!r}")
        if self.open is not None and self.state != REQUIRED:
            raise ValueError(f"line {self.number}: only what is required can be open in part")

    @property
    def is_not_ours(self) -> bool:
        """True when it does not apply, and the state says why."""
        return self.state.startswith(NOT_OURS)

    @property
    def is_required(self) -> bool:
        """True when a passing test must carry the number."""
        return self.state == REQUIRED


@cache
def lines() -> Mapping[Number, Line]:
    """All of both lists by number, in order."""
    return {line.number: line for line in (*read(LINES), *read(HISTORY, letter="H"))}


def read(path: Path, *, letter: str = "") -> Sequence[Line]:
    """One list; ValueError when numbers are missing, twice or out of order."""
    found = [Line(**row) for row in tomllib.loads(path.read_text(encoding="utf-8"))["line"]]
    wanted = [f"{letter}{number}" if letter else number for number in range(1, len(found) + 1)]
    if [line.number for line in found] != wanted:
        raise ValueError(f"{path.name}: the numbers are not {letter}1 to {letter}{len(found)}, one after the other")
    return found
