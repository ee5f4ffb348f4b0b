"""The page names what is damaged, and runs nothing that a file name contains."""

from __future__ import annotations

from pykraft.audit.page import SHOWN_MAX, audit_page
from tests.audit.some_report import some_report


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
