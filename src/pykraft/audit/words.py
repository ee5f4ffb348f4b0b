"""The words for an audit, the same on a terminal and on its page."""

from __future__ import annotations

from collections.abc import Iterator

from pykraft.audit.findings import AuditedLog, AuditReport
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
