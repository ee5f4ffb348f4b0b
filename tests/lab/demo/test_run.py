"""The stages of the demo: every failure is reported, and no process is left running."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from lab.demo import run
from lab.demo.audit import Audit
from lab.demo.failures import NO_SPACE, ExplainedError
from lab.demo.replicas import ReplicaComparison
from lab.demo.run import run_demo
from pykraft.client.journal import Acknowledged
from pykraft.errors import LocalQuorumError, StorageError, UsageError
from pykraft.local.child import Children
from tests.lab.demo.audits import clean_audit
from tests.lab.demo.fakes import ALONE, FakeTables, Lines

pytestmark = pytest.mark.spark


FOUND = clean_audit(1)


def raising(error: Exception) -> Callable[..., NoReturn]:
    """A function that does nothing else."""

    def call(*_: object, **__: object) -> NoReturn:
        raise error

    return call


def test_nothing_is_started_on_a_disk_that_is_too_full(
    told: Lines, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=5 << 20))
    with pytest.raises(UsageError, match="5 MiB are free"):
        run_demo(ALONE, tmp_path, told)
    assert (told.stages, list(tmp_path.iterdir())) == ([], [])


def test_nothing_is_started_without_a_java(told: Lines, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("pykraft.spark.session.local.java_home", raising(UsageError("Spark needs a Java runtime")))
    with pytest.raises(UsageError, match="Java"):
        run_demo(ALONE, tmp_path, told)
    assert (told.stages, list(tmp_path.iterdir())) == ([], [])


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> FakeTables:
    """Tables without Spark."""
    tables = FakeTables()
    monkeypatch.setattr(run, "LiveTables", lambda *_: tables)
    return tables


def test_all_stages_in_their_order(
    told: Lines, tables: FakeTables, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[Any] = []

    def answer(spark: str, tables: str, log: Path, said: list[Acknowledged], *, until_offset: int) -> Audit:
        asked.extend([spark, tables, log, sum(one.count for one in said), until_offset])
        return FOUND

    monkeypatch.setattr(run, "ask_spark", answer)
    story = run_demo(ALONE, tmp_path, told)
    result = story.result
    spark, its_tables, log, acknowledged, until_offset = asked
    assert (spark, its_tables, tables.is_closed) == ("the session", "the tables", True)
    assert (result.audit, result.failover_ms, result.problems) == (FOUND, None, [])
    assert result.comparison.are_identical
    assert log.is_relative_to(tmp_path)
    assert 50 < until_offset <= acknowledged + 1
    assert result.seconds >= 2
    assert story.end_wall_ms - story.begin_wall_ms >= 2_000
    assert (sum(one.count for one in story.acknowledged), story.batches, story.kills) == (
        acknowledged,
        tuple(tables.batches),
        (),
    )
    assert story.samples
    assert len(tables.controllers) == 1
    assert told.stages == [
        "starting Spark and 1 node",
        "node 1 leads epoch 1; writing 100 records/s",
        "stopping the load; waiting until all replicas and the tables hold every acknowledged record",
        "stopping the stream",
        "comparing the logs byte by byte",
        "checking every acknowledged record with Spark",
    ]
    assert told.passing[0].endswith(" records acknowledged, waiting for Spark to start")
    assert told.passing[-1].endswith(" records acknowledged, 1,000,000,000 in the tables, micro-batch 0 took 1,234 ms")


def test_logs_of_which_none_is_sound_end_the_demo(
    told: Lines, tables: FakeTables, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    nothing = ReplicaComparison(are_identical=False, problems=("node 1 is damaged",), furthest=None)
    monkeypatch.setattr(run, "compare", lambda *_, **__: nothing)
    with pytest.raises(LocalQuorumError, match="node 1 is damaged"):
        run_demo(ALONE, tmp_path, told)


def test_a_disk_that_is_full_for_the_demo_itself_is_told(
    told: Lines, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(run, "LiveTables", raising(OSError(errno.ENOSPC, NO_SPACE)))
    with pytest.raises(StorageError, match="the disk is full, so the demo cannot continue"):
        run_demo(ALONE, tmp_path, told)
    monkeypatch.setattr(run, "LiveTables", raising(PermissionError(errno.EACCES, "no")))
    with pytest.raises(PermissionError):
        run_demo(ALONE, tmp_path, told)


def test_a_full_disk_that_ended_a_process_is_what_is_told(
    told: Lines, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(run, "LiveTables", raising(LocalQuorumError("waited 30 s for a leader")))
    monkeypatch.setattr(Children, "log_ends", lambda _: f"--- the end of node 1's log\npykraft: n1: {NO_SPACE}")
    with pytest.raises(StorageError, match="the disk is full, so the demo cannot continue"):
        run_demo(ALONE, tmp_path, told)


@pytest.mark.parametrize(
    ("error", "notes"), [(LocalQuorumError("waited"), 1), (ExplainedError("the stream cannot continue: why"), 0)]
)
def test_logs_are_shown_beside_what_does_not_explain_itself(
    error: LocalQuorumError, notes: int, told: Lines, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(run, "LiveTables", raising(error))
    with pytest.raises(LocalQuorumError) as caught:
        run_demo(ALONE, tmp_path, told)
    assert len(getattr(caught.value, "__notes__", [])) == notes
