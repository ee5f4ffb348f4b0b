"""What a look at a directory found: damage, and what an operator should merely know.

Owns the collecting. Invariant: however damaged a directory is, at most `FINDINGS_MAX` of each kind are kept, and
all are counted. It refuses to know files and how findings are printed.

Source: ours.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pykraft.errors import CorruptionError

FINDINGS_MAX: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """Bytes that are not what they must be, and what to do about it."""

    path: Path
    position: int
    """Byte of the file; 0 for what is wrong with all of it."""
    expected: str
    found: str
    advice: str


@dataclass(frozen=True, slots=True)
class Note:
    """A sentence about a file that is no damage."""

    path: Path
    text: str


@dataclass(slots=True)
class Findings:
    """All that was found; filled while looking."""

    damage: list[Damage] = field(default_factory=list)
    damage_count: int = 0
    notes: list[Note] = field(default_factory=list)
    notes_count: int = 0

    def add_damage(self, path: Path, position: int, *, expected: str, found: str, advice: str) -> None:
        """Remember damage, or only count it."""
        self.damage_count += 1
        if len(self.damage) < FINDINGS_MAX:
            self.damage.append(Damage(path=path, position=position, expected=expected, found=found, advice=advice))

    def add_error(self, error: CorruptionError) -> None:
        """Remember what the reader of a file refused."""
        self.add_damage(
            Path(error.path),
            error.position,
            expected=error.expected,
            found=error.found,
            advice=error.repair or "restore the file from a copy",
        )

    def add_note(self, path: Path, text: str) -> None:
        """Remember a note, or only count it."""
        self.notes_count += 1
        if len(self.notes) < FINDINGS_MAX:
            self.notes.append(Note(path, text))

    def extend(self, other: Findings) -> None:
        """Take over what another look found."""
        self.damage_count += other.damage_count
        self.notes_count += other.notes_count
        self.damage += other.damage[: FINDINGS_MAX - len(self.damage)]
        self.notes += other.notes[: FINDINGS_MAX - len(self.notes)]
