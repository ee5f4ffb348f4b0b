"""Quorums of Kafka's TestRaftServer to measure.

Two peculiarities: when it gets more load than it can write, its load thread ends for good while the process lives on,
so it always gets a rate. And it reports latencies only in the lines that its leader prints every five seconds, capped
at 249 ms. It starts as with Kafka's own script, with a heap of one gigabyte.

Source: Kafka's ``TestRaftServer`` (``RaftWorkloadGenerator``, ``WriteStats``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from lab.bench.contender import LoadedQuorum, Task
from lab.bench.ours import LINGER
from lab.bench.running import Running
from lab.kafka.java import SERVER_JVM, Kafka
from lab.kafka.peer import JavaNode
from pykraft.local.child import Children
from pykraft.local.ports import free_ports

LOAD_THREAD_DIED = "[raft-workload-generator]: Error"
OUT_OF_MEMORY = "OutOfMemoryError"
RATE_MAX = 2_000_000_000
_PRINTED = re.compile(r"Latency \(ms\): ([\d.]+) p75 ([\d.]+) p99 ([\d.]+) p999")


class KafkaQuorum(Running):
    """See `lab.bench.contender.LoadedQuorum`."""

    def __init__(self, kafka: Kafka, children: Children, folder: Path, task: Task) -> None:
        ports = dict(enumerate(free_ports(task.nodes), start=1))
        nodes = {
            node_id: JavaNode(
                kafka,
                children,
                folder / f"n{node_id}",
                node_id=node_id,
                ports=ports,
                throughput=RATE_MAX if task.records_per_s is None else task.records_per_s,
                record_size_bytes=task.record_size_bytes,
                properties={LINGER: str(task.linger_ms)},
                log_level="WARN",
                jvm=SERVER_JVM,
            )
            for node_id in ports
        }
        super().__init__(nodes, ports)
        self._log_paths = [node.log_path for node in nodes.values()]

    def failure(self) -> str | None:
        """See `LoadedQuorum`."""
        said = self._said()
        if LOAD_THREAD_DIED in said:
            return "its load thread died of overload"
        if OUT_OF_MEMORY in said:
            return "a node ran out of memory"
        return super().failure()

    def begin_window(self) -> None:
        """See `LoadedQuorum`; its lines have their own windows."""

    def latency_ms(self) -> Mapping[str, float]:
        """See `LoadedQuorum`: the last line that was printed."""
        lines = _PRINTED.findall(self._said())
        return dict(zip(("p75", "p99", "p999"), map(float, lines[-1]), strict=True)) if lines else {}

    def _said(self) -> str:
        return "".join(path.read_text(errors="replace") for path in self._log_paths)


class Java:
    """See `lab.bench.contender.Contender`."""

    name = "kafka"
    breaks_when_overloaded = True

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka

    def quorum(self, children: Children, folder: Path, task: Task) -> LoadedQuorum:
        """See `Contender`."""
        return KafkaQuorum(self._kafka, children, folder, task)
