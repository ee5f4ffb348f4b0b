"""Percentiles are of records, not of batches; a real quorum is measured."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.bench.measure import RunLimits, Task, measure
from lab.bench.quorums import FAR_OFFSET, Java, Ours, Probe, Running
from lab.kafka.java import Kafka
from pykraft.errors import ErrorCode, LocalQuorumError
from pykraft.local.child import Child, Children, wait_until
from pykraft.local.journal import Acknowledged, parse_event
from pykraft.local.voters import free_ports
from pykraft.protocol.schema import Body
from tests.lab.bench.voters import partition, voter


def said(latency_ms: float, count: int) -> Acknowledged:
    event = parse_event(
        f'{{"event":"ack","node":1,"run":"0011223344556677","epoch":1,"first_sequence":0,"count":{count},'
        f'"base_offset":1,"wall_ms":1,"latency_ms":{latency_ms}}}'
    )
    assert isinstance(event, Acknowledged)
    return event


@pytest.mark.processes
def test_a_quorum_of_ours_is_measured(tmp_path: Path) -> None:
    task = Task(nodes=3, record_size_bytes=100, records_per_s=1_000, linger_ms=5)
    limits = RunLimits(warm_up_s=0.5, window_s=1.5, size_bytes_max=10**9)
    with Children() as children:
        run = measure(Ours().quorum(children, tmp_path, task), task, limits)
    assert run.failure is None
    assert run.records_per_s > 500
    assert run.latency_ms["p50"] <= run.latency_ms["p99"]
    assert 10 < run.memory_mib < 300


pytestmark = pytest.mark.processes


def nodes(child: Child) -> dict[int, Any]:
    return {1: SimpleNamespace(process=child)}


def test_nodes_that_run_have_a_watermark_and_a_usage(tmp_path: Path) -> None:
    code = "import sys; sys.stdin = None; import signal; signal.pause()"
    with Children() as children, voter(lambda asked: partition(high_watermark=7, leader=1, epoch=0)) as port:
        child = children.start("node 1", [sys.executable, "-c", code], tmp_path / "log")
        running = Running(nodes(child), {1: port})
        assert running.watermark().offset == 7
        running.close()
        assert running.usage()[1].memory_mib > 0
        assert running.failure() is None
        child.kill()
        assert running.failure() == "node 1 ended with -9"
        with pytest.raises(LocalQuorumError, match="node 1 has ended"):
            running.usage()


def test_nodes_that_end_are_not_waited_for(tmp_path: Path) -> None:
    with Children() as children:
        child = children.start("node 1", [sys.executable, "-c", "raise SystemExit('no [disk]')"], tmp_path / "log")
        with pytest.raises(LocalQuorumError, match=r"node 1 ended with 1: no \[disk\]"):
            Running(nodes(child), {1: free_ports(1)[0]}).watermark()


def leader(asked: Body) -> Body:
    assert asked["fetch_offset"] == FAR_OFFSET
    if asked["current_leader_epoch"] != 5:
        return partition(error=ErrorCode.FENCED_LEADER_EPOCH, leader=2, epoch=5)
    assert asked["last_fetched_epoch"] == 5
    return partition(high_watermark=1_234, leader=2, epoch=5)


def follower(asked: Body) -> Body:
    error = ErrorCode.FENCED_LEADER_EPOCH if asked["current_leader_epoch"] != 5 else ErrorCode.NOT_LEADER_OR_FOLLOWER
    return partition(error=error, leader=2, epoch=5)


def test_a_follower_names_the_leader_and_the_leader_tells() -> None:
    with voter(follower) as first, voter(leader) as second:
        probe = Probe({1: first, 2: second})
        told = probe.ask()
        assert told is not None
        assert (told.offset, told.leader_id, told.epoch) == (1_234, 2, 5)
        again = probe.ask()
        assert again is not None
        assert again.at_s >= told.at_s
        probe.close()


def test_a_new_leader_is_found() -> None:
    epoch = iter((5, 6, 6, 6))

    def resigned(asked: Body) -> Body:
        now = next(epoch)
        if now == 5:
            return partition(high_watermark=10, leader=1, epoch=5)
        return partition(error=ErrorCode.FENCED_LEADER_EPOCH, leader=2, epoch=6)

    def successor(asked: Body) -> Body:
        assert asked["current_leader_epoch"] == 6
        return partition(high_watermark=11, leader=2, epoch=6)

    with voter(resigned) as first, voter(successor) as second:
        probe = Probe({1: first, 2: second})
        assert [told and (told.offset, told.leader_id) for told in (probe.ask(), probe.ask())] == [(10, 1), (11, 2)]
        probe.close()


def test_a_leader_that_does_not_know_its_high_watermark_has_none() -> None:
    with voter(lambda asked: partition(leader=1, epoch=0)) as port:
        probe = Probe({1: port})
        assert probe.ask() is None
        probe.close()


@pytest.fixture(params=[{"correlation_shift": 1}, {"partitions": 0}])
def wrong_port(request: pytest.FixtureRequest) -> Iterator[int]:
    with voter(leader, **request.param) as port:
        yield port


def test_a_wrong_answer_names_the_node(wrong_port: int) -> None:
    with pytest.raises(LocalQuorumError, match="node 1 sent an invalid Fetch response"):
        Probe({1: wrong_port}).ask()


TASK = Task(nodes=2, record_size_bytes=100, records_per_s=None, linger_ms=25)


def kafka_that_says(folder: Path, text: str) -> Kafka:
    java = folder / "java"
    java.write_text(f"#!/bin/sh\necho '{text}'\necho \"$@\"\nexec sleep 60\n")
    java.chmod(0o755)
    return Kafka(java=java, jars=folder)


@pytest.mark.parametrize(
    ("text", "failure"),
    [
        ("12:00:00.000 ERROR ShutdownableThread: [raft-workload-generator]: Error due to", "its load thread died"),
        ("java.lang.OutOfMemoryError: Java heap space", "a node ran out of memory"),
        ("nothing", None),
    ],
)
@pytest.mark.processes
def test_what_ends_the_load_is_found_in_the_log(tmp_path: Path, text: str, failure: str | None) -> None:
    with Children() as children:
        quorum = Java(kafka_that_says(tmp_path, text)).quorum(children, tmp_path, TASK)
        quorum.start()
        logs = [tmp_path / f"n{node_id}" / "node.log" for node_id in (1, 2)]
        wait_until(lambda: all("TestRaftServer" in log.read_text() for log in logs), "both to have spoken")
        said = quorum.failure()
        assert said == failure or (failure is not None and said is not None and said.startswith(failure))
        assert "-Xmx1G" in logs[0].read_text()
        assert "--throughput 2000000000" in logs[0].read_text()
