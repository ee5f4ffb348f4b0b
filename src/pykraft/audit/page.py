"""The page of an audit, and its words on a terminal: the verdict, what is damaged where, the logs, the notes.

Invariant: every text from a directory is escaped, since a file may have any name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path
from typing import Final

from pykraft.audit.findings import AuditedLog, AuditReport
from pykraft.page import render_page
from pykraft.text.words import counted


def lines(report: AuditReport) -> Iterator[str]:
    """The report as plain text."""
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
    """What is said of a log."""
    return [
        ("offsets", f"{log.start_offset} to {log.end_offset} (exclusive)"),
        ("epochs", str(log.epochs_count)),
        ("segments", str(log.segments_count)),
        ("batches", str(log.batches_count)),
        ("bytes", str(log.size_bytes)),
        ("snapshots", str(log.snapshots_count)),
    ]


def verdict(report: AuditReport) -> str:
    """One sentence."""
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
    """The page as one HTML document."""
    logs = [_card(log.replica, log_facts(log), "note") for log in report.logs]
    damage = [
        _card(
            f"{one.path}, byte {one.position}",
            [
                ("replica", one.replica),
                ("expected", one.expected),
                ("found", one.found),
                ("what to do", one.advice),
            ],
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
