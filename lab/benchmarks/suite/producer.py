"""Records that a real Java producer writes with acks=all: to a quorum of ours, and to a Kafka of three brokers.

Kafka's own ProducerPerformance writes, with its defaults, once to warm up and once to measure. Kafka's three nodes are
brokers and controllers; the topic has one partition, three replicas and min.insync.replicas=2. Ours syncs each batch on
a majority before it acknowledges it. ``flushing`` does the same on each broker (log.flush.interval.messages=1), the
default leaves syncing to the kernel. Invariant: the processor time is that of the nodes, without the producer's.

Source: Kafka's ``kafka-producer-perf-test.sh``; its configuration reference (flush.messages, min.insync.replicas).
"""

import os
import re
import socket
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from lab.bench.measure import Usage, usage_of
from lab.kafka.java import SERVER_JVM, Kafka, Main
from lab.nodes.cluster import Cluster
from pykraft.config import TEST_TOPIC_NAME
from pykraft.errors import LocalQuorumError
from pykraft.local.child import Child, Children, wait_until
from pykraft.local.voters import HOST, free_ports, write_properties
from pykraft.types import Uuid, uuid_text

NODES: Final = 3
FLUSHING: Final = "kafka-flushing"
DEFAULT: Final = "kafka-default"
KAFKAS: Final = (FLUSHING, DEFAULT)
TOPIC: Final = "measured"
WARM_UP_RECORDS: Final = {100: 100_000, 1_024: 20_000}
RECORDS_MAX: Final = 5_000_000
TOOL_JVM: Final = ("-Xmx256M",)
"""The heap of the scripts in ``bin``."""
TOOL_TIMEOUT_S: Final = 300.0
_TOLD: Final = re.compile(
    r"(\d+) records sent, ([\d.]+) records/sec .*? ([\d.]+) ms avg latency, ([\d.]+) ms max latency, "
    r"(\d+) ms 50th, (\d+) ms 95th, (\d+) ms 99th"
)


class Written(Protocol):
    """Three nodes that a producer writes to."""

    topic: str
    servers: str
    """What the producer connects to."""

    def usage(self) -> Mapping[str, Usage]:
        """What the nodes have used so far. Errors: LocalQuorumError if one has ended."""


class OurNodes:
    """A pykraft quorum that serves clients on the voters' listener; see `Written`."""

    topic = TEST_TOPIC_NAME

    def __init__(self, children: Children, folder: Path) -> None:
        self._cluster = Cluster(
            children, folder, size=NODES, throughput=0, properties={"pykraft.client.listeners": "PLAINTEXT"}
        )
        self._cluster.start()
        self.servers = ",".join(f"{HOST}:{node.port}" for node in self._cluster.nodes.values())

    def usage(self) -> Mapping[str, Usage]:
        return _usage([node.process for node in self._cluster.nodes.values()])


class KafkaBrokers:
    """Three nodes of Kafka; see `Written`. The producer's first request creates the topic."""

    topic = TOPIC

    def __init__(self, kafka: Kafka, children: Children, folder: Path, *, is_flushing: bool) -> None:
        """Errors: LocalQuorumError if a node does not serve."""
        ports = free_ports(2 * NODES)
        brokers, controllers = ports[:NODES], ports[NODES:]
        voters = ",".join(f"{node_id}@{HOST}:{port}" for node_id, port in enumerate(controllers, start=1))
        cluster_id = uuid_text(Uuid(b"\1" + os.urandom(15)))
        self.servers = ",".join(f"{HOST}:{port}" for port in brokers)
        self._children: list[Child] = []
        for node_id, (broker, controller) in enumerate(zip(brokers, controllers, strict=True), start=1):
            home = folder / f"n{node_id}"
            home.mkdir()
            properties = {
                "process.roles": "broker,controller",
                "node.id": str(node_id),
                "controller.quorum.voters": voters,
                "listeners": f"PLAINTEXT://{HOST}:{broker},CONTROLLER://{HOST}:{controller}",
                "controller.listener.names": "CONTROLLER",
                "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
                "log.dirs": str(home / "data"),
                "default.replication.factor": str(NODES),
                "offsets.topic.replication.factor": str(NODES),
                "min.insync.replicas": "2",
                **({"log.flush.interval.messages": "1"} if is_flushing else {}),
            }
            config = write_properties(home / "server.properties", properties)
            done = kafka.run(Main.STORAGE, "format", "--cluster-id", cluster_id, "--config", str(config))
            if done.status:
                raise LocalQuorumError(f"formatting a broker ended with {done.status}: {done.stderr}")
            command = kafka.command(Main.SERVER, [str(config)], jvm=SERVER_JVM)
            self._children.append(children.start(f"broker {node_id}", command, home / "node.log"))
        wait_until(lambda: all(map(_listens, brokers)), "the brokers to accept connections", alive=self._children)

    def usage(self) -> Mapping[str, Usage]:
        return _usage(self._children)


@dataclass(frozen=True, slots=True, kw_only=True)
class Performance:
    """What ProducerPerformance printed last; times in ms."""

    records: int
    rate: float
    mean_ms: float
    p50_ms: float
    p99_ms: float
    worst_ms: float


def produce(kafka: Kafka, written: Written, *, size_bytes: int, records: int) -> Performance:
    """Let ProducerPerformance write so many records of this size. Errors: LocalQuorumError."""
    words = ["--topic", written.topic, "--num-records", str(records), "--record-size", str(size_bytes)]
    words += ["--throughput", "-1", "--bootstrap-server", written.servers, "--command-property", "acks=all"]
    command = kafka.command(Main.PRODUCER_PERFORMANCE, words, log_level="ERROR", jvm=TOOL_JVM)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TOOL_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise LocalQuorumError(f"{records} records were not written within {TOOL_TIMEOUT_S:g} s") from error
    return performance(done.stdout, done.stderr, records)


def performance(printed: str, problems: str, records: int) -> Performance:
    """Read the last line. Errors: LocalQuorumError if not all records were written."""
    lines = _TOLD.findall(printed)
    if not lines or int(lines[-1][0]) != records:
        said = (problems or printed).strip().splitlines()[-1:]
        raise LocalQuorumError(": ".join([f"the producer did not write {records} records", *said]))
    _, rate, mean_ms, worst_ms, p50_ms, _, p99_ms = map(float, lines[-1])
    return Performance(records=records, rate=rate, mean_ms=mean_ms, p50_ms=p50_ms, p99_ms=p99_ms, worst_ms=worst_ms)


def measure_producer(contender: str, folder: Path, *, size_bytes: int, seconds: float) -> dict[str, float]:
    """Warm up, then write for about so long. Errors: LocalQuorumError, KafkaUnavailableError."""
    kafka = Kafka.find(None)
    with Children() as children:
        written: Written = (
            KafkaBrokers(kafka, children, folder, is_flushing=contender == FLUSHING)
            if contender in KAFKAS
            else OurNodes(children, folder)
        )
        first = produce(kafka, written, size_bytes=size_bytes, records=WARM_UP_RECORDS[size_bytes])
        records = min(RECORDS_MAX, max(WARM_UP_RECORDS[size_bytes], int(first.rate * seconds)))
        before = written.usage()
        found = produce(kafka, written, size_bytes=size_bytes, records=records)
        after = written.usage()
    used_s = sum(after[name].cpu_s - before[name].cpu_s for name in after)
    return {
        "rate": found.rate,
        "mb_per_s": found.rate * size_bytes / 1e6,
        "p50_ms": found.p50_ms,
        "p99_ms": found.p99_ms,
        "worst_ms": found.worst_ms,
        "cpu_us": used_s / records * 1e6,
        "memory_mib": max(each.memory_mib for each in after.values()),
        "records": records,
    }


def _usage(processes: list[Child]) -> dict[str, Usage]:
    return {child.name: usage_of(child.pid, child.name) for child in processes}


def _listens(port: int) -> bool:
    with socket.socket() as asking:
        asking.settimeout(1)
        return asking.connect_ex((HOST, port)) == 0
