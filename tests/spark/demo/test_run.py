"""The stages of the demo: what goes wrong in each is told, and nothing is left running."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from pykraft.client.journal import Acknowledged
from pykraft.client.journal_check import Verdict
from pykraft.errors import LocalQuorumError, ProtocolError, UsageError
from pykraft.local.child import Children
from pykraft.local.ports import HOST, free_ports
from pykraft.spark.audit import Audit
from pykraft.spark.demo import run
from pykraft.spark.demo.options import DemoOptions
from pykraft.spark.demo.run import run_demo, start_cluster

pytestmark = pytest.mark.spark

ALONE = DemoOptions(nodes=1, seconds=2, throughput=100, record_size_bytes=20)
FOUND = Audit(
    committed_records=1,
    acknowledged=1,
    spark_rows=1,
    duplicates=0,
    missing=0,
    out_of_order=0,
    leader_epochs=1,
    replicas_identical=True,
)


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
    monkeypatch.setattr(run, "java_home", raising(UsageError("Spark needs a Java runtime")))
    with pytest.raises(UsageError, match="Java"):
        run_demo(ALONE, tmp_path, told)
    assert (told.stages, list(tmp_path.iterdir())) == ([], [])


def test_all_stages_in_their_order(told: Lines, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[Any] = []

    def answer(partitions: Sequence[Path], said: list[Acknowledged], *, until_offset: int, tell: Lines) -> Audit:
        asked.extend([partitions, sum(one.count for one in said), until_offset])
        tell("asked")
        return FOUND

    monkeypatch.setattr(run, "ask_spark", answer)
    result = run_demo(ALONE, tmp_path, told)
    ((partition,), acknowledged, until_offset) = asked
    assert (result.audit, result.failover_ms, result.problems) == (FOUND, None, [])
    assert (result.verdict.acknowledged, result.verdict.found) == (acknowledged, acknowledged)
    assert partition.is_relative_to(tmp_path)
    assert 50 < until_offset <= acknowledged + 1
    assert result.seconds >= 2
    assert told.stages[0] == "starting 1 nodes"
    assert told.stages[1] == "node 1 leads epoch 1; writing 100 records/s"
    assert told.stages[-2:] == ["comparing the logs byte by byte", "asked"]
    assert told.passing[-1].endswith(" records acknowledged")


def test_a_port_that_was_taken_is_tried_no_more(
    told: Lines, children: Children, taken: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ports = iter([[taken]])
    monkeypatch.setattr("pykraft.local.cluster.free_ports", lambda count: next(ports, None) or free_ports(count))
    cluster, leader = start_cluster(children, tmp_path, ALONE, told)
    assert (leader.node, len(cluster.nodes)) == (1, 1)
    assert cluster.nodes[1].port != taken
    assert told.stages == ["starting 1 nodes", "somebody took a port; starting again on others"]


def test_ports_that_are_always_taken_end_the_demo(
    told: Lines, children: Children, taken: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("pykraft.local.cluster.free_ports", lambda _: [taken])
    with pytest.raises(LocalQuorumError, match="node 1 ended with 2"):
        start_cluster(children, tmp_path, ALONE, told)
    assert len(told.stages) == run.START_TRIES_MAX
    assert run.PORT_IS_TAKEN in children.log_ends()


def test_a_node_that_ends_by_itself_ends_the_demo(told: Lines, children: Children, tmp_path: Path) -> None:
    cluster, _ = start_cluster(children, tmp_path, ALONE, told)
    cluster.nodes[1].process.kill()
    with pytest.raises(LocalQuorumError, match="node 1 ended by itself, with status -9"):
        run._wait(cluster, 30, told)


@pytest.mark.parametrize("error", [LocalQuorumError("they differ"), ProtocolError("they differ")])
def test_logs_that_differ_are_a_problem_and_no_end(error: Exception) -> None:
    cluster: Any = SimpleNamespace(check=raising(error))
    assert run._verdict(cluster, 5) == Verdict(problems=("they differ",))
