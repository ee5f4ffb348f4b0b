"""The page of an audit for people: the verdict, what is damaged where, the logs, the notes.

Invariant: every text from a directory is escaped, since a file may have any name.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Final

from pykraft.audit.findings import AuditReport
from pykraft.audit.words import log_facts, verdict
from pykraft.page import render_page

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
