"""A log without its end is reported, and of a log and its checkpoint the one that is alone.

Source: Kafka's ``LeaderEpochFileCache``.
"""

from __future__ import annotations

from pathlib import Path

from pykraft.audit.findings import AuditReport
from pykraft.audit.replica_checks import tell_missing_end
from tests.audit.judged_logs import judged_log
from tests.audit.replicas import audited, our_replicas


def test_the_end_of_the_last_segment_is_named() -> None:
    report = AuditReport()
    tell_missing_end(judged_log("n1", end_offset=9), report)
    assert report.is_sound
    tell_missing_end(judged_log("n1", end_offset=9, recovery_point=12), report)
    (found,) = report.damage
    assert (found.path.name, found.position) == ("00000000000000000000.log", 720)
    assert "offset 12" in found.expected


def test_a_checkpoint_that_contradicts_the_log_of_all_is_wrong(tmp_path: Path) -> None:
    directories = our_replicas(tmp_path)
    checkpoint = next(directories[1].glob("__*")) / "leader-epoch-checkpoint"
    for content in ("0\n2\n1 0\n2 70\n", "0\n2\n1 0\n2 31\n", "0\n2\n1 0\n3 30\n"):
        checkpoint.write_text(content)
        report = audited(directories)
        assert {one.replica for one in report.damage} == {str(directories[1])}
        assert checkpoint in {one.path for one in report.damage}
