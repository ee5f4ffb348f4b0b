"""The figures of a Kafka quorum are read from its logs; a fake java writes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.bench.contender import Task
from lab.bench.java import Java
from lab.kafka.java import Kafka
from pykraft.local.child import Children
from pykraft.local.waiting import wait_until

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


@pytest.mark.processes
def test_the_last_line_that_was_printed_has_the_latencies(tmp_path: Path) -> None:
    lines = [f"Throughput (bytes/second): 1.0, Latency (ms): {p}.0 p75 142.0 p99 249.0 p999" for p in (24, 25)]
    with Children() as children:
        quorum = Java(kafka_that_says(tmp_path, "\n".join(lines))).quorum(children, tmp_path, TASK)
        quorum.start()
        quorum.begin_window()
        latencies = wait_until(lambda: quorum.latency_ms() or None, "the lines", timeout_s=10)
        assert latencies == {"p75": 25.0, "p99": 142.0, "p999": 249.0}
