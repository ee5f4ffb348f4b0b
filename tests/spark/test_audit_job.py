"""The executors find what a process alone finds; an error of a task is ours again."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pykraft.audit.directory_audit import DirectoryAudit, run_audits
from pykraft.audit.plan import SnapshotTask
from pykraft.errors import StorageError
from pykraft.log.os_fs import OsFs
from pykraft.spark.audit_job import run_on, slices_of
from tests.audit.planted import plant_all
from tests.audit.replicas import kafkas_replicas, our_replicas, run_here

DAMAGES = 20
"""Two of each kind, all in two jobs; tests/audit has 300."""


def test_executors_name_what_one_process_names(spark: SparkSession, tmp_path: Path) -> None:
    sources = [our_replicas(tmp_path / "ours"), kafkas_replicas("static"), kafkas_replicas("raft")]
    planted = list(plant_all(sources, tmp_path / "copies", DAMAGES, seed=7))
    several = [*(one.directories for one in planted), *sources]

    def audits() -> list[DirectoryAudit]:
        return [DirectoryAudit(OsFs(), each) for each in several]

    reports = run_audits(audits(), lambda tasks: run_on(spark, tasks))
    assert reports == run_audits(audits(), run_here)
    for one, report in zip(planted, reports, strict=False):
        named = [each.position for each in report.damage if each.path == one.path]
        assert any(one.first <= position <= one.last for position in named), str(one)
    assert [report.damage for report in reports[DAMAGES:]] == [[], [], []]


def test_an_error_of_a_task_is_ours(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="00000000000000000030"):
        run_on(spark, [SnapshotTask(path=tmp_path / "00000000000000000030-0000000001.checkpoint")])


def test_tasks_keep_the_cores_busy_and_are_not_too_many() -> None:
    assert [slices_of(tasks, 2) for tasks in (0, 1, 8, 32, 100, 10**6)] == [1, 1, 8, 8, 25, 100_000]
