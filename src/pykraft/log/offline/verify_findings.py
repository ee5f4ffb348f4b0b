"""The findings of a check: damage, and notes for the operator.

Invariant: however damaged a directory is, at most `FINDINGS_MAX` findings of each kind are kept, and all are counted.

Source: ours.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pykraft.errors import CorruptionError

FINDINGS_MAX: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DamageFinding:
    """Bytes that are wrong, and what to do about it."""

    path: Path
    position: int
    """Byte in the file; 0 if all of it is wrong."""
    expected: str
    found: str
    advice: str


@dataclass(frozen=True, slots=True)
class NoteFinding:
    """A sentence about a file that is not damaged."""

    path: Path
    text: str


@dataclass(slots=True)
class Findings:
    """All findings; filled during the check."""

    damage: list[DamageFinding] = field(default_factory=list)
    damage_count: int = 0
    notes: list[NoteFinding] = field(default_factory=list)
    notes_count: int = 0

    def add_damage(self, path: Path, position: int, *, expected: str, found: str, advice: str) -> None:
        """Keep the damage, or only count it once FINDINGS_MAX are kept."""
        self.damage_count += 1
        if len(self.damage) < FINDINGS_MAX:
            self.damage.append(
                DamageFinding(path=path, position=position, expected=expected, found=found, advice=advice)
            )

    def add_error(self, error: CorruptionError) -> None:
        """Keep the error of a file's parser as damage."""
        self.add_damage(
            Path(error.path),
            error.position,
            expected=error.expected,
            found=error.found,
            advice=error.repair or "restore the file from a copy",
        )

    def add_note(self, path: Path, text: str) -> None:
        """Keep a note, or only count it once FINDINGS_MAX are kept."""
        self.notes_count += 1
        if len(self.notes) < FINDINGS_MAX:
            self.notes.append(NoteFinding(path, text))

    def extend(self, other: Findings) -> None:
        self.damage_count += other.damage_count
        self.notes_count += other.notes_count
        self.damage += other.damage[: FINDINGS_MAX - len(self.damage)]
        self.notes += other.notes[: FINDINGS_MAX - len(self.notes)]

    def also_in(self, earlier: Findings) -> Findings:
        """These findings without the damage that an earlier look at the same files did not find."""
        known = set(map(_identity, earlier.damage))
        kept = [one for one in self.damage if _identity(one) in known]
        # Beyond FINDINGS_MAX nothing can be compared, and that much damage is no write under way.
        count = self.damage_count - len(self.damage) + len(kept)
        return Findings(damage=kept, damage_count=count, notes=self.notes, notes_count=self.notes_count)


def _identity(one: DamageFinding) -> tuple[Path, int | None, str, str]:
    position = None if one.found.startswith("epoch ") else one.position
    return one.path, position, one.expected, one.found
