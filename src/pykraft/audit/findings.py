"""What an audit found, by replica, file and byte: the rows, the words on a terminal, and the page.

Invariants: the number of rows is bounded, and all damage is counted. Every text from a directory is escaped on the
page, since a file may have any name.

Source: ours.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from html import escape
from pathlib import Path
from typing import Any, Final

from pykraft.log.offline.verify_findings import Findings
from pykraft.object_storage.uris import restored
from pykraft.page import render_page
from pykraft.text.words import counted
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
        return not self.damage_count

    def add(
        self, kind: AuditKind, replica: str, path: Path, position: int, *, expected: str, found: str, advice: str
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

    def add_damage(self, replica: str, findings: Findings) -> None:
        for one in findings.damage:
            where = replica, one.path, one.position
            self.add(AuditKind.DAMAGED, *where, expected=one.expected, found=one.found, advice=one.advice)
        self.damage_count += findings.damage_count - len(findings.damage)

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


def lines(report: AuditReport) -> Iterator[str]:
    for one in report.damage:
        yield f"{one.replica}: {one.path}: byte {one.position}: expected {one.expected}, found {one.found}"
        yield f"  what to do: {one.advice}"
    if report.damage_count > len(report.damage):
        yield f"and {counted(report.damage_count - len(report.damage), 'more damaged place')}"
    for note in report.notes:
        yield f"note: {note.replica}: {note.path}: {note.text}"
    if report.notes_count > len(report.notes):
        yield f"and {counted(report.notes_count - len(report.notes), 'more note')}"
    for log in report.logs:
        yield f"{log.replica}: " + ", ".join(f"{name} {text}" for name, text in log_facts(log))
    yield verdict(report)


def log_facts(log: AuditedLog) -> list[tuple[str, str]]:
    return [
        ("offsets", f"{log.start_offset} to {log.end_offset} (exclusive)"),
        ("epochs", str(log.epochs_count)),
        ("segments", str(log.segments_count)),
        ("batches", str(log.batches_count)),
        ("bytes", str(log.size_bytes)),
        ("snapshots", str(log.snapshots_count)),
    ]


def verdict(report: AuditReport) -> str:
    size = sum(log.size_bytes for log in report.logs)
    read = f"{counted(len(report.logs), 'log')} with {size} bytes"
    said = "" if report.acknowledged is None else f" and {counted(report.acknowledged, 'acknowledged record')}"
    if report.is_sound:
        return f"No damage found in {read}{said}."
    return f"{counted(report.damage_count, 'place')} damaged in {read}{said}."


HERE: Final = Path(__file__).parent
SHOWN_MAX: Final = 1_000
"""Findings of each kind on the page; the rows have more."""


def audit_page(report: AuditReport) -> str:
    logs = [_card(log.replica, log_facts(log), "note") for log in report.logs]
    damage = [
        _card(
            f"{one.path}, byte {one.position}",
            [("replica", one.replica), ("expected", one.expected), ("found", one.found), ("what to do", one.advice)],
            "damage",
        )
        for one in report.damage[:SHOWN_MAX]
    ]
    notes = [
        _card(str(note.path), [("replica", note.replica), ("note", note.text)], "note")
        for note in report.notes[:SHOWN_MAX]
    ]
    return render_page(
        HERE,
        {
            "title": "Audit: no damage" if report.is_sound else "Audit: damage",
            "verdict": "" if report.is_sound else "failed",
            "summary": escape(verdict(report)),
            "damage": _section("Damage", damage, report.damage_count),
            "logs": "\n".join(logs),
            "notes": _section("Notes", notes, report.notes_count),
        },
    )


def _section(name: str, cards: list[str], count: int) -> str:
    if not cards:
        return ""
    more = f"<p>and {count - len(cards)} more</p>" if count > len(cards) else ""
    return "\n".join(["<section>", f"  <h2>{name}</h2>", *cards, more, "</section>"])


def _card(head: str, facts: Iterable[tuple[str, str]], kind: str) -> str:
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in facts)
    return f'<article class="{kind}"><h3>{escape(head)}</h3><dl>{rows}</dl></article>'
