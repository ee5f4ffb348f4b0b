"""The stages of the demo: every failure is reported, and no process is left running."""

import errno
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from lab.demo import report, run
from lab.demo.live_tables import NO_SPACE
from lab.demo.payloads import Audit
from lab.demo.result import DemoOptions, ReplicaComparison
from lab.demo.run import PORT_IS_TAKEN, START_TRIES_MAX, DemoLoad, run_demo, start_cluster
from pykraft.errors import LocalQuorumError, StorageError, UsageError
from pykraft.local.child import Children
from pykraft.local.journal import Acknowledged
from pykraft.local.voters import HOST, free_ports
from tests.lab.demo.audits import clean_audit
from tests.lab.demo.fakes import ALONE, FakeTables
from tests.lab.lines import Lines

pytestmark = pytest.mark.spark


FOUND = clean_audit(1)


def raising(error: Exception) -> Callable[..., NoReturn]:
    """A function that does nothing else."""

    def call(*_: object, **__: object) -> NoReturn:
        raise error

    return call


def test_nothing_is_started_on_a_disk_that_is_too_full(
    lines: Lines, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=5 << 20))
    with pytest.raises(UsageError, match="5 MiB are free"):
        run_demo(ALONE, tmp_path, lines)
    assert (lines.stages, list(tmp_path.iterdir())) == ([], [])


def test_nothing_is_started_without_a_java(lines: Lines, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("pykraft.spark.session.local.java_home", raising(UsageError("Spark needs a Java runtime")))
    with pytest.raises(UsageError, match="Java"):
        run_demo(ALONE, tmp_path, lines)
    assert (lines.stages, list(tmp_path.iterdir())) == ([], [])


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> FakeTables:
    """Tables without Spark."""
    tables = FakeTables()
    monkeypatch.setattr(run, "LiveTables", lambda *_: tables)
    return tables


def test_all_stages_in_their_order(
    lines: Lines, tables: FakeTables, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[Any] = []

    def answer(spark: str, tables: str, log: Path, said: list[Acknowledged], *, until_offset: int) -> Audit:
        asked.extend([spark, tables, log, sum(one.count for one in said), until_offset])
        return FOUND

    monkeypatch.setattr(run, "ask_spark", answer)
    story = run_demo(ALONE, tmp_path, lines)
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
    assert lines.stages == [
        "starting Spark and 1 node",
        "node 1 leads epoch 1; writing 100 records/s",
        "stopping the load; waiting until all replicas and the tables hold every acknowledged record",
        "stopping the stream",
        "comparing the logs byte by byte",
        "checking every acknowledged record with Spark",
    ]
    assert lines.passing[0].endswith(" records acknowledged, waiting for Spark to start")
    assert lines.passing[-1].endswith(" records acknowledged, 1,000,000,000 in the tables, micro-batch 0 took 1,234 ms")


def test_logs_of_which_none_is_sound_end_the_demo(
    lines: Lines, tables: FakeTables, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    nothing = ReplicaComparison(are_identical=False, problems=("node 1 is damaged",), furthest=None)
    monkeypatch.setattr(run, "compare", lambda *_, **__: nothing)
    with pytest.raises(LocalQuorumError, match="node 1 is damaged"):
        run_demo(ALONE, tmp_path, lines)


def test_a_disk_that_is_full_for_the_demo_itself_is_told(
    lines: Lines, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(run, "LiveTables", raising(OSError(errno.ENOSPC, NO_SPACE)))
    with pytest.raises(StorageError, match="the disk is full, so the demo cannot continue"):
        run_demo(ALONE, tmp_path, lines)
    monkeypatch.setattr(run, "LiveTables", raising(PermissionError(errno.EACCES, "no")))
    with pytest.raises(PermissionError):
        run_demo(ALONE, tmp_path, lines)


def load(children: Children, folder: Path, options: DemoOptions, lines: Lines) -> tuple[DemoLoad, FakeTables]:
    cluster, _ = start_cluster(children, folder, options, lines)
    tables: Any = FakeTables()
    return DemoLoad(cluster=cluster, tables=tables, options=options, folder=folder, report=lines), tables


def test_a_node_that_ends_by_itself_ends_the_demo(lines: Lines, children: Children, tmp_path: Path) -> None:
    given, _ = load(children, tmp_path, ALONE, lines)
    given.cluster.nodes[1].process.kill()
    with pytest.raises(LocalQuorumError, match="node 1 ended on its own with status -9"):
        given.run()


def test_a_stream_that_ends_ends_the_demo(lines: Lines, children: Children, tmp_path: Path) -> None:
    given, tables = load(children, tmp_path, ALONE, lines)
    tables.error = LocalQuorumError("the stream cannot continue")
    with pytest.raises(LocalQuorumError, match="the stream cannot continue"):
        given.run()


def test_a_load_that_waits_for_spark_says_so(lines: Lines, children: Children, tmp_path: Path) -> None:
    given, tables = load(children, tmp_path, ALONE, lines)
    tables.first_at = 6  # in the second half
    given.run()
    assert lines.stages[-1:] == ["waiting for Spark to start; until then the load goes on, up to 60 s longer than 2 s"]
    assert lines.passing[0].endswith(" acknowledged, waiting for Spark to start")
    assert lines.passing[-1].endswith(" in the tables, micro-batch 0 took 1,234 ms")
    assert given.seconds > 2


def test_a_leader_that_is_killed_is_replaced_and_comes_back(lines: Lines, children: Children, tmp_path: Path) -> None:
    options = DemoOptions(nodes=3, seconds=2, throughput=100, record_size_bytes=20, kill_leader=True)
    given, _ = load(children, tmp_path, options, lines)
    given.run()
    kill = given.kill
    assert kill is not None
    assert kill.killed_wall_ms < kill.elected_wall_ms
    assert kill.failover_ms > 0
    assert kill.restarted_wall_ms is not None
    assert kill.leader_id != kill.node_id
    assert kill.epoch > 1
    assert given.seconds >= 2
    assert lines.stages[-3:] == [
        f"node {kill.node_id} was killed with kill -9",
        f"node {kill.leader_id} leads epoch {kill.epoch} and acknowledges, {kill.failover_ms:,} ms later",
        f"node {kill.node_id} is restarted",
    ]
    end_offset = given.end()
    assert end_offset == given.cluster.journal.end_offset
    assert {node.process.status for node in given.cluster.nodes.values()} == {None}


def test_no_leader_is_killed_before_the_tables_have_rows_and_the_run_fails(
    lines: Lines, tables: FakeTables, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    options = DemoOptions(nodes=3, seconds=2, throughput=100, record_size_bytes=20, kill_leader=True)
    tables.first_at = 10**9
    monkeypatch.setattr(run, "LATE_S_MAX", 0.5)
    monkeypatch.setattr(run, "ask_spark", lambda *_, **__: FOUND)
    story = run_demo(options, tmp_path, lines)
    assert (story.kills, story.result.failover_ms) == ((), None)
    assert story.result.problems == ["the leader was not killed: the tables had no rows 0.5 s after its time"]
    assert not [line for line in lines.stages if "was killed" in line]
    assert [check.is_met for check in report.checks(story)][-1:] == [False]


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that somebody listens on."""
    with socket.create_server((HOST, free_ports(1)[0])) as server:
        yield server.getsockname()[1]


def test_a_port_that_was_taken_is_tried_no_more(
    lines: Lines, children: Children, taken: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ports = iter([[taken]])
    monkeypatch.setattr("lab.nodes.cluster.free_ports", lambda count: next(ports, None) or free_ports(count))
    cluster, leader = start_cluster(children, tmp_path, ALONE, lines)
    assert (leader.node, len(cluster.nodes)) == (1, 1)
    assert cluster.nodes[1].port != taken
    assert lines.stages == ["another process took a port; restarting on other ports"]


def test_ports_that_are_always_taken_end_the_demo(
    lines: Lines, children: Children, taken: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("lab.nodes.cluster.free_ports", lambda _: [taken])
    with pytest.raises(LocalQuorumError, match=r"node 1 ended on its own with status 1: .* cannot be bound"):
        start_cluster(children, tmp_path, ALONE, lines)
    assert len(lines.stages) == START_TRIES_MAX - 1
    assert PORT_IS_TAKEN in children.log_ends()
