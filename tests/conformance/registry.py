"""The list of lines: what must hold, and whether a test must prove it. Read from ``lines.toml``, checked while read."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

LINES = Path(__file__).parent / "lines.toml"
REQUIRED = "required"
STATES = (REQUIRED, "later: snapshots", "later: voter changes")
NOT_OURS = "does not apply: "


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One behavior. ``open`` says what of a required line still waits, and for what."""

    number: int
    section: str
    statement: str
    state: str
    open: str | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for a state that nobody would understand."""
        if self.state not in STATES and not (self.state.startswith(NOT_OURS) and len(self.state) > len(NOT_OURS)):
            raise ValueError(f"line {self.number}: unknown state {self.state!r}")
        if self.open is not None and self.state != REQUIRED:
            raise ValueError(f"line {self.number}: only what is required can be open in part")

    @property
    def is_required(self) -> bool:
        """True when a passing test must carry the number."""
        return self.state == REQUIRED


@cache
def lines(path: Path = LINES) -> Mapping[int, Line]:
    """All lines by number, in order; ValueError when numbers are missing, twice or out of order."""
    found = [Line(**row) for row in tomllib.loads(path.read_text(encoding="utf-8"))["line"]]
    numbers = [line.number for line in found]
    if numbers != list(range(1, len(found) + 1)):
        raise ValueError(f"{path.name}: the numbers are not 1 to {len(found)}, one after the other")
    return {line.number: line for line in found}
