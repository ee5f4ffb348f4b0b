"""Rows for machines: bounded, and with totals of all that was found."""

from __future__ import annotations

from pykraft.audit.findings import DAMAGE_MAX
from tests.audit.some_report import some_report


def test_rows_end_with_the_totals() -> None:
    rows = list(some_report().rows())
    assert [row["row"] for row in rows] == ["log", "damage", "note", "total"]
    assert rows[1]["file"] == "/data/n1/log-0/<script>.log"
    assert rows[-1] == {
        "row": "total",
        "isSound": False,
        "logs": 1,
        "sizeBytes": 700,
        "damageCount": 1,
        "notesCount": 1,
        "acknowledged": None,
    }
    assert list(some_report(0).rows())[-1]["isSound"]


def test_no_more_rows_are_kept_than_anybody_reads() -> None:
    report = some_report(DAMAGE_MAX + 5)
    assert (len(report.damage), report.damage_count) == (DAMAGE_MAX, DAMAGE_MAX + 5)
    for _ in range(DAMAGE_MAX):
        report.add_note("n1", report.logs[0].path, "more")
    assert (len(report.notes), report.notes_count) == (DAMAGE_MAX, DAMAGE_MAX + 1)
