"""Reports to print."""

from __future__ import annotations

from pathlib import Path

from pykraft.audit.findings import AuditedLog, AuditKind, AuditReport
from pykraft.types import Offset


def some_report(places: int = 1) -> AuditReport:
    """A log with this many damaged places and a note; the text would be markup."""
    report = AuditReport()
    report.logs.append(
        AuditedLog(
            replica="n1",
            path=Path("/data/n1/log-0"),
            start_offset=Offset(0),
            end_offset=Offset(9),
            epochs_count=1,
            segments_count=1,
            batches_count=3,
            size_bytes=700,
            snapshots_count=0,
        )
    )
    for at in range(places):
        path = Path("/data/n1/log-0/<script>.log")
        report.add(AuditKind.DAMAGED, "n1", path, at, expected="CRC 1", found="CRC 2", advice="look")
    report.add_note("n1", Path("/data/n1/x.deleted"), "is left over")
    return report
