"""A node that writes while its directory is audited has no damage, and one that lost its end has.

Source: ours.
"""

from __future__ import annotations

from pathlib import Path

from pykraft.audit.directory_audit import DirectoryAudit, run_audits
from pykraft.audit.earlier_files import KEPT, EarlierFiles
from pykraft.audit.findings import AuditReport
from pykraft.log.os_fs import OsFs
from tests.audit.replicas import audited, our_replicas, run_here
from tests.log.data_directory import CONFIG, NAME, segments
from tests.log.logs import batch, fill, open_log


def write_on(directory: Path) -> None:
    """The node goes on: records of a new epoch, which are synced."""
    log, _ = open_log(OsFs(), CONFIG, directory / NAME)
    fill(log, [batch(at, epoch=3, size_bytes=100, time=at) for at in range(60, 80)])
    log.close()


def audited_while_it_writes(directories: list[Path]) -> AuditReport:
    audit = DirectoryAudit(OsFs(), directories)
    write_on(directories[0])
    (report,) = run_audits([audit], run_here)
    return report


def test_what_a_node_writes_after_the_plan_is_not_missing(tmp_path: Path) -> None:
    directories = our_replicas(tmp_path)
    report = audited_while_it_writes(directories)
    assert report.damage == []
    assert {log.end_offset for log in report.logs} == {60}
    assert [log.end_offset for log in audited(directories).logs] == [80, 60, 60]


def test_what_was_missing_before_the_plan_is_told(tmp_path: Path) -> None:
    directories = our_replicas(tmp_path)
    write_on(directories[0])
    segments(directories[0] / NAME)[-1].write_bytes(b"")
    assert "recovery-point" in {one.path.name for one in audited(directories).damage}


def test_files_are_kept_as_they_were_and_others_are_read(tmp_path: Path) -> None:
    for name in (*KEPT, "other"):
        (tmp_path / name).write_text("before")
    files = EarlierFiles(OsFs(), [tmp_path, tmp_path / "none"]).as_fs()
    for name in (*KEPT, "other"):
        (tmp_path / name).write_text("after")
    for name in KEPT:
        file = files.open(tmp_path / name)
        assert (file.size(), file.pread(3, 1), files.read(tmp_path / name)) == (6, b"efo", b"before")
        file.close()
    assert files.read(tmp_path / "other") == b"after"
    assert files.exists(tmp_path / "other")
    other = files.open(tmp_path / "other")
    assert other.pread(5, 0) == b"after"
    other.close()
