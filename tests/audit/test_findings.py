"""Rows are bounded, with totals of all damage; the page names the damage and runs nothing that a file name contains."""

from pykraft.audit.findings import DAMAGE_MAX, SHOWN_MAX, audit_page, lines
from tests.audit.replicas import some_report


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


def test_the_page_names_replica_file_and_byte() -> None:
    page = audit_page(some_report())
    assert "<h1>Audit: damage</h1>" in page
    assert "/data/n1/log-0/&lt;script&gt;.log, byte 0" in page
    assert "<script" not in page
    assert "CRC 1" in page
    assert "is left over" in page


def test_a_sound_audit_has_no_section_of_damage() -> None:
    page = audit_page(some_report(0))
    assert "<h1>Audit: no damage</h1>" in page
    assert "<h2>Damage</h2>" not in page


def test_what_is_left_out_is_told() -> None:
    assert "<p>and 3 more</p>" in audit_page(some_report(SHOWN_MAX + 3))


def test_replica_file_and_byte_are_named() -> None:
    assert list(lines(some_report())) == [
        "n1: /data/n1/log-0/<script>.log: byte 0: expected CRC 1, found CRC 2",
        "  what to do: look",
        "note: n1: /data/n1/x.deleted: is left over",
        "n1: offsets 0 to 9 (exclusive), epochs 1, segments 1, batches 3, bytes 700, snapshots 0",
        "1 place damaged in 1 log with 700 bytes.",
    ]


def test_sound_logs_and_what_is_left_out_are_told() -> None:
    report = some_report(0)
    report.acknowledged = 5
    assert list(lines(report))[-1] == "No damage found in 1 log with 700 bytes and 5 acknowledged records."
    report = some_report(DAMAGE_MAX + 2)
    report.notes_count += 1
    text = list(lines(report))
    assert "and 2 more damaged places" in text
    assert "and 1 more note" in text
