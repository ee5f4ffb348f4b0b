"""A plan follows from names and sizes; directories of two clusters are refused; a running node has no damage."""

from pathlib import Path

import pytest

from pykraft.audit import plan
from pykraft.audit.directory_audit import DirectoryAudit, run_audits
from pykraft.audit.findings import AuditReport
from pykraft.errors import ForeignClusterError, UsageError
from pykraft.log.os_fs import OsFs
from pykraft.types import Offset
from tests.audit.replicas import audited, kafkas_replicas, our_replicas, run_here
from tests.log.data_directory import CONFIG, META, NAME, segments
from tests.log.logs import batch, fill, open_log

GIB = 1024**3


def test_each_segment_and_each_snapshot_is_a_task(tmp_path: Path) -> None:
    (partition,) = plan.find_partitions(OsFs(), our_replicas(tmp_path)[0])
    tasks = list(plan.tasks_of(partition, offsets_a_digest=1_024, has_journal=False))
    segment_tasks = [task for task in tasks if isinstance(task, plan.SegmentTask)]
    assert [(task.base_offset, task.size_bytes) for task in segment_tasks] == list(partition.segments)
    assert {task.probes for task in segment_tasks} == {(Offset(30),)}
    assert [task.path.name for task in tasks if isinstance(task, plan.SnapshotTask)] == [
        "00000000000000000030-0000000001.checkpoint"
    ]


def test_an_empty_segment_is_a_task(tmp_path: Path) -> None:
    partition = plan.AuditedPartition(replica="n1", path=tmp_path, names=(), segments=((Offset(0), 0),))
    assert len(list(plan.tasks_of(partition, offsets_a_digest=1, has_journal=False))) == 1


def test_ten_tebibytes_are_planned_from_their_listing(tmp_path: Path) -> None:
    segments = tuple((Offset(at * 10_000_000), GIB) for at in range(10 * 1024))
    partition = plan.AuditedPartition(replica="n1", path=tmp_path, names=(), segments=segments)
    width = plan.digest_offsets(OsFs(), [partition])
    assert 10 * 1024 * 10_000_000 / width < plan.DIGESTS_MAX * 1.01
    assert sum(1 for _ in plan.tasks_of(partition, offsets_a_digest=width, has_journal=False)) == 10 * 1024


def test_a_small_log_has_wide_digests(tmp_path: Path) -> None:
    partitions = plan.find_partitions(OsFs(), our_replicas(tmp_path)[0])
    assert plan.digest_offsets(OsFs(), partitions) == plan.DIGEST_OFFSETS_MIN
    assert plan.digest_offsets(OsFs(), []) == plan.DIGEST_OFFSETS_MIN


def test_another_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="neither a log directory"):
        plan.find_partitions(OsFs(), tmp_path)


def test_directories_of_two_clusters_are_refused_since_nothing_in_them_is_equal(tmp_path: Path) -> None:
    ours, kafkas = our_replicas(tmp_path), kafkas_replicas("static")
    with pytest.raises(ForeignClusterError) as error:
        audited([*ours, *kafkas])
    told = str(error.value)
    assert f"2 clusters (of cluster {META.cluster_id}: {', '.join(map(str, ours))}; of cluster " in told
    assert f": {', '.join(map(str, kafkas))}): give those of one cluster" in told
    with pytest.raises(ForeignClusterError):
        audited([next(path.glob("__*")) for path in (ours[0], kafkas[0])])


@pytest.mark.parametrize("content", [None, b"version=1\n", b"nothing"])
def test_a_directory_that_names_no_cluster_is_compared(content: bytes | None, tmp_path: Path) -> None:
    directories = our_replicas(tmp_path)
    file = directories[0] / "meta.properties"
    if content is None:
        file.unlink()
    else:
        file.write_bytes(content)
    assert [one.path for one in audited(directories).damage] == ([] if content is None else [file])


def test_directories_of_two_kinds_are_refused_since_they_would_not_be_compared(tmp_path: Path) -> None:
    directories = our_replicas(tmp_path)
    with pytest.raises(UsageError, match="give all of one kind"):
        audited([directories[0], next(directories[1].glob("__*"))])
    assert audited([next(path.glob("__*")) for path in directories]).is_sound


def test_a_directory_is_given_once(tmp_path: Path) -> None:
    directories = our_replicas(tmp_path)
    with pytest.raises(UsageError, match="given twice"):
        audited([*directories, directories[0] / ".." / directories[0].name])


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
    for name in (*plan.KEPT, "other"):
        (tmp_path / name).write_text("before")
    files = plan.EarlierFiles(OsFs(), [tmp_path, tmp_path / "none"]).as_fs()
    for name in (*plan.KEPT, "other"):
        (tmp_path / name).write_text("after")
    for name in plan.KEPT:
        file = files.open(tmp_path / name)
        assert (file.size(), file.pread(3, 1), files.read(tmp_path / name)) == (6, b"efo", b"before")
        file.close()
    assert files.read(tmp_path / "other") == b"after"
    assert files.exists(tmp_path / "other")
    other = files.open(tmp_path / "other")
    assert other.pread(5, 0) == b"after"
    other.close()
