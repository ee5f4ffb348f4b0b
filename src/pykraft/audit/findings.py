"""What an audit found, by replica, file and byte: the rows that people and machines get.

Invariant: however damaged the replicas are, the number of rows is bounded; all damage is counted.

Source: ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Final

from pykraft.object_storage.uris import restored
from pykraft.types import Offset

DAMAGE_MAX: Final = 10_000
"""Rows about damage, and rows with notes, that are kept."""


class AuditKind(Enum):
    """How damage was noticed."""

    DAMAGED = "damaged"
    """A file contradicts itself, or the other files of its directory."""
    DIFFERS = "differs"
    """A log differs from the logs of other replicas where they must be equal."""
    LOST = "lost"
    """An acknowledged record is not where it must be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditDamage:
    """A place that is wrong. ``position`` is the byte in the file: the first wrong one, or that of its batch."""

    kind: AuditKind
    replica: str
    path: Path
    position: int
    expected: str
    found: str
    advice: str

    def as_row(self) -> dict[str, Any]:
        """The row for machines."""
        return {
            "row": "damage",
            "kind": self.kind.value,
            "replica": self.replica,
            "file": str(self.path),
            "position": self.position,
            "expected": self.expected,
            "found": self.found,
            "whatToDo": self.advice,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditNote:
    """A sentence about a file that is not damaged."""

    replica: str
    path: Path
    text: str

    def as_row(self) -> dict[str, Any]:
        """The row for machines."""
        return {"row": "note", "replica": self.replica, "file": str(self.path), "text": self.text}


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedLog:
    """One log; ``end_offset`` is exclusive."""

    replica: str
    path: Path
    start_offset: Offset
    end_offset: Offset
    epochs_count: int
    segments_count: int
    batches_count: int
    size_bytes: int
    snapshots_count: int

    def as_row(self) -> dict[str, Any]:
        """The row for machines."""
        return {
            "row": "log",
            "replica": self.replica,
            "file": str(self.path),
            "startOffset": self.start_offset,
            "endOffset": self.end_offset,
            "epochs": self.epochs_count,
            "segments": self.segments_count,
            "batches": self.batches_count,
            "sizeBytes": self.size_bytes,
            "snapshots": self.snapshots_count,
        }


@dataclass(slots=True, kw_only=True)
class AuditReport:
    """All rows of one audit."""

    logs: list[AuditedLog] = field(default_factory=list)
    damage: list[AuditDamage] = field(default_factory=list)
    damage_count: int = 0
    notes: list[AuditNote] = field(default_factory=list)
    notes_count: int = 0
    acknowledged: int | None = None
    """Acknowledged records that were looked for in each log; None without a journal."""

    @property
    def is_sound(self) -> bool:
        """Nothing is wrong."""
        return not self.damage_count

    def add(
        self,
        kind: AuditKind,
        replica: str,
        path: Path,
        position: int,
        *,
        expected: str,
        found: str,
        advice: str,
    ) -> None:
        """Keep the damage, or only count it once DAMAGE_MAX are kept."""
        self.damage_count += 1
        if len(self.damage) < DAMAGE_MAX:
            self.damage.append(
                AuditDamage(
                    kind=kind,
                    replica=replica,
                    path=restored(path),
                    position=position,
                    expected=expected,
                    found=found,
                    advice=advice,
                )
            )

    def add_note(self, replica: str, path: Path, text: str) -> None:
        """Keep a note, or only count it once DAMAGE_MAX are kept."""
        self.notes_count += 1
        if len(self.notes) < DAMAGE_MAX:
            self.notes.append(AuditNote(replica=replica, path=restored(path), text=text))

    def rows(self) -> Iterator[dict[str, Any]]:
        """The logs, what is wrong, the notes, and a last row with the totals."""
        for kept in (self.logs, self.damage, self.notes):
            for one in kept:
                yield one.as_row()
        yield {
            "row": "total",
            "isSound": self.is_sound,
            "logs": len(self.logs),
            "sizeBytes": sum(log.size_bytes for log in self.logs),
            "damageCount": self.damage_count,
            "notesCount": self.notes_count,
            "acknowledged": self.acknowledged,
        }
