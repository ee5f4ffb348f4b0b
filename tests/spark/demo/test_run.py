"""The stages of the demo: what goes wrong in each is told, and nothing is left running."""

from __future__ import annotations

import errno
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from pykraft.client.journal import Acknowledged
from pykraft.errors import LocalQuorumError, StorageError, UsageError
from pykraft.local.child import Children
from pykraft.local.ports import HOST, free_ports
from pykraft.spark.audit import Audit
from pykraft.spark.demo import run
from pykraft.spark.demo.failures import NO_SPACE, ExplainedError
from pykraft.spark.demo.live_tables import MicroBatch
from pykraft.spark.demo.options import DemoOptions
from pykraft.spark.demo.replicas import Comparison
from pykraft.spark.demo.run import Load, run_demo, start_cluster
from pykraft.types import Endpoint

pytestmark = pytest.mark.spark

ALONE = DemoOptions(nodes=1, seconds=2, throughput=100, record_size_bytes=20)
FOUND = Audit(
    committed_records=1,
    acknowledged=1,
    spark_rows=1,
    duplicates=0,
    missing=0,
    out_of_order=0,
    strays=0,
    leader_epochs=1,
    tables_agree=True,
)


class FakeTables:
    """In the place of Spark: tables that hold everything at the third look."""

    def __init__(self, *_: object) -> None:
        self.tables, self.is_closed, self.checks = "the tables", False, 0
        self.controllers: list[Endpoint] = []
        self.batches: list[MicroBatch] = []
        self.error: Exception | None = None

    def follow(self, controllers: list[Endpoint]) -> None:
        self.controllers = controllers

    def check(self) -> None:
        self.checks += 1
        if self.error is not None:
            raise self.error
        if self.checks == 3:
            self.batches.append(MicroBatch(batch_id=0, end_offset=10**9, ended_wall_ms=0, duration_ms=1_234))

    def wait_for(self, end_offset: int, passing: Callable[[], None]) -> None:
        passing()

    def stop(self) -> str:
        return "the session"

    def close(self) -> None:
        self.is_closed = True


class Lines:
    """What was told."""

    def __init__(self) -> None:
        self.stages: list[str] = []
        self.passing: list[str] = []

    def __call__(self, text: str, *, is_passing: bool = False) -> None:
        (self.passing if is_passing else self.stages).append(text)


@pytest.fixture
def told() -> Lines:
    """What was told."""
    return Lines()


@pytest.fixture
def children() -> Iterator[Children]:
    """The processes of one test; dead when it ends."""
    with Children(report=lambda ends: print(ends, file=sys.stderr)) as children:
        yield children


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that somebody listens on."""
    with socket.create_server((HOST, free_ports(1)[0])) as server:
        yield server.getsockname()[1]


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
    monkeypatch.setattr("pykraft.spark.session.java_home", raising(UsageError("Spark needs a Java runtime")))
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
        "starting 1 nodes, and Spark",
        "node 1 leads epoch 1; writing 100 records/s",
        "ending the load; waiting until every replica and the tables hold all that was acknowledged",
        "ending the stream",
        "comparing the logs byte by byte",
        "asking Spark for every acknowledged record",
    ]
    assert told.passing[0].endswith(" records acknowledged")
    assert told.passing[-1].endswith(" records acknowledged, 1,000,000,000 in the tables, micro-batch 0 took 1,234 ms")


def test_logs_of_which_none_is_sound_end_the_demo(
    told: Lines, tables: FakeTables, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    nothing = Comparison(are_identical=False, problems=("node 1 is damaged",), furthest=None)
    monkeypatch.setattr(run, "compare", lambda *_, **__: nothing)
    with pytest.raises(LocalQuorumError, match="node 1 is damaged"):
        run_demo(ALONE, tmp_path, told)


def test_a_disk_that_is_full_for_the_demo_itself_is_told(
    told: Lines, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(run, "LiveTables", raising(OSError(errno.ENOSPC, NO_SPACE)))
    with pytest.raises(StorageError, match="the disk is full, the demo cannot go on"):
        run_demo(ALONE, tmp_path, told)
    monkeypatch.setattr(run, "LiveTables", raising(PermissionError(errno.EACCES, "no")))
    with pytest.raises(PermissionError):
        run_demo(ALONE, tmp_path, told)


def test_a_full_disk_that_ended_a_process_is_what_is_told(
    told: Lines, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(run, "LiveTables", raising(LocalQuorumError("waited 30 s for a leader")))
    monkeypatch.setattr(Children, "log_ends", lambda _: f"--- the end of node 1's log\npykraft: n1: {NO_SPACE}")
    with pytest.raises(StorageError, match="the disk is full, the demo cannot go on"):
        run_demo(ALONE, tmp_path, told)


@pytest.mark.parametrize(
    ("error", "notes"), [(LocalQuorumError("waited"), 1), (ExplainedError("the stream cannot go on: why"), 0)]
)
def test_logs_are_shown_beside_what_does_not_explain_itself(
    error: LocalQuorumError, notes: int, told: Lines, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(run, "LiveTables", raising(error))
    with pytest.raises(LocalQuorumError) as caught:
        run_demo(ALONE, tmp_path, told)
    assert len(getattr(caught.value, "__notes__", [])) == notes


def test_a_port_that_was_taken_is_tried_no_more(
    told: Lines, children: Children, taken: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ports = iter([[taken]])
    monkeypatch.setattr("pykraft.local.cluster.free_ports", lambda count: next(ports, None) or free_ports(count))
    cluster, leader = start_cluster(children, tmp_path, ALONE, told)
    assert (leader.node, len(cluster.nodes)) == (1, 1)
    assert cluster.nodes[1].port != taken
    assert told.stages == ["somebody took a port; starting again on others"]


def test_ports_that_are_always_taken_end_the_demo(
    told: Lines, children: Children, taken: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("pykraft.local.cluster.free_ports", lambda _: [taken])
    with pytest.raises(LocalQuorumError, match=r"node 1 ended by itself, with status 2: .* cannot be bound"):
        start_cluster(children, tmp_path, ALONE, told)
    assert len(told.stages) == run.START_TRIES_MAX - 1
    assert run.PORT_IS_TAKEN in children.log_ends()


def load(children: Children, folder: Path, options: DemoOptions, told: Lines) -> tuple[Load, FakeTables]:
    cluster, _ = start_cluster(children, folder, options, told)
    tables: Any = FakeTables()
    return Load(cluster=cluster, tables=tables, options=options, folder=folder, tell=told), tables


def test_a_node_that_ends_by_itself_ends_the_demo(told: Lines, children: Children, tmp_path: Path) -> None:
    given, _ = load(children, tmp_path, ALONE, told)
    given.cluster.nodes[1].process.kill()
    with pytest.raises(LocalQuorumError, match="node 1 ended by itself, with status -9"):
        given.run()


def test_a_stream_that_ends_ends_the_demo(told: Lines, children: Children, tmp_path: Path) -> None:
    given, tables = load(children, tmp_path, ALONE, told)
    tables.error = LocalQuorumError("the stream cannot go on")
    with pytest.raises(LocalQuorumError, match="the stream cannot go on"):
        given.run()


def test_a_leader_that_is_killed_is_replaced_and_comes_back(told: Lines, children: Children, tmp_path: Path) -> None:
    options = DemoOptions(nodes=3, seconds=2, throughput=100, record_size_bytes=20, kill_leader=True)
    given, _ = load(children, tmp_path, options, told)
    given.run()
    kill = given.kill
    assert kill is not None
    assert kill.killed_wall_ms < kill.elected_wall_ms
    assert kill.failover_ms > 0
    assert kill.restarted_wall_ms is not None
    assert kill.leader_id != kill.node_id
    assert kill.epoch > 1
    assert given.seconds >= 2
    assert told.stages[-3:] == [
        f"node {kill.node_id} was killed with -9",
        f"node {kill.leader_id} leads epoch {kill.epoch} and acknowledges again, {kill.failover_ms:,} ms later",
        f"node {kill.node_id} starts again",
    ]
    end_offset = given.end()
    assert end_offset == given.cluster.journal.end_offset
    assert {node.process.status for node in given.cluster.nodes.values()} == {None}
