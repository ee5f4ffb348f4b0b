"""All findings are counted, and a bounded number of them is kept.

Source: ours.
"""

from __future__ import annotations

from pathlib import Path

from pykraft.errors import CorruptionError
from pykraft.log.offline.verify_findings import FINDINGS_MAX, Findings

PATH = Path("file")


def test_what_is_kept_is_bounded_and_what_is_counted_is_not() -> None:
    findings = Findings()
    for at in range(FINDINGS_MAX + 5):
        findings.add_damage(PATH, at, expected="a", found="b", advice="c")
        findings.add_note(PATH, "d")
    assert (findings.damage_count, findings.notes_count) == (FINDINGS_MAX + 5, FINDINGS_MAX + 5)
    assert (len(findings.damage), len(findings.notes)) == (FINDINGS_MAX, FINDINGS_MAX)
    both = Findings()
    both.extend(findings)
    both.extend(findings)
    assert (both.damage_count, len(both.damage), len(both.notes)) == (2 * FINDINGS_MAX + 10, FINDINGS_MAX, FINDINGS_MAX)


def test_an_error_without_a_repair_gets_one() -> None:
    findings = Findings()
    findings.add_error(CorruptionError(PATH, position=3, expected="a", found="b"))
    findings.add_error(CorruptionError(PATH, position=3, expected="a", found="b", repair="c"))
    assert [one.advice for one in findings.damage] == ["restore the file from a copy", "c"]
