"""What the sessions read from: a Kafka broker, a quorum of one pykraft node for each set of data, and its files.

The records are in the broker's topics of two partitions, one for each core, and in the node's log, which is written
before the node starts. Both have batches of about the same size, uncompressed.
"""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from lab.benchmarks.spark_source.cases import Data
from lab.kafka.jars import COPY_GOAL
from lab.kafka.java import SERVER_JVM, Kafka, Main
from lab.nodes.cluster import Cluster
from pykraft.errors import LocalQuorumError, UsageError
from pykraft.local.child import Child, Children
from pykraft.local.voters import HOST, free_ports, write_properties
from pykraft.log.paths import LOG, segment_file
from pykraft.process.extras import cache_folder
from pykraft.protocol.records import encode_batch
from pykraft.types import Epoch, Offset, Uuid, uuid_text

CONNECTOR_VERSION: Final = "4.2.0"
JARS: Final = ("spark-sql-kafka-0-10_2.13", "spark-token-provider-kafka-0-10_2.13", "kafka-clients", "commons-pool2")
"""What pip's pyspark lacks."""
FETCH_TIMEOUT_S: Final = 600.0
FILL_TIMEOUT_S: Final = 600.0
PARTITIONS: Final = 2
LINGER_MS: Final = 100


def fetch_jars(pom: Path, folder: Path, *words: str) -> None:
    """Let Maven put what this file names, and what that needs, into a folder. Errors: UsageError."""
    command = ["mvn", "--quiet", "--batch-mode", "--file", str(pom), COPY_GOAL, f"-DoutputDirectory={folder}"]
    command += ["-DincludeScope=runtime", *words]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False)
    except FileNotFoundError:
        raise UsageError(f"there is no mvn on the PATH, which fetches what {pom} names") from None
    if ended.returncode:
        raise UsageError(f"Maven could not fetch what {pom} names:\n{ended.stdout}{ended.stderr}")


def connector_jars() -> list[Path]:
    """The connector, fetched once into the user's cache folder. Errors: UsageError."""
    folder = cache_folder() / f"spark-kafka-connector-jars-{CONNECTOR_VERSION}"
    done = folder / "complete"
    if not done.exists():
        fetch_jars(Path(__file__).with_name("pom.xml"), folder, f"-DincludeArtifactIds={','.join(JARS)}")
        done.touch()
    return sorted(folder.glob("*.jar"))


class Broker:
    """A node of Kafka, broker and controller, with a topic for each set of data."""

    def __init__(self, children: Children, folder: Path, sets: Sequence[Data]) -> None:
        """Start it and fill the topics. Errors: LocalQuorumError, KafkaUnavailableError."""
        self._kafka = Kafka.find()
        broker, controller = free_ports(2)
        self.servers = f"{HOST}:{broker}"
        folder.mkdir()
        properties = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{HOST}:{controller}",
            "listeners": f"PLAINTEXT://{HOST}:{broker},CONTROLLER://{HOST}:{controller}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": str(folder / "data"),
            "num.partitions": str(PARTITIONS),
            "offsets.topic.replication.factor": "1",
        }
        config = write_properties(folder / "server.properties", properties)
        cluster_id = uuid_text(Uuid(b"\1" + os.urandom(15)))
        done = self._kafka.run(Main.STORAGE, "format", "--cluster-id", cluster_id, "--config", str(config))
        if done.status:
            raise LocalQuorumError(f"formatting the broker ended with {done.status}: {done.stderr}")
        command = self._kafka.command(Main.SERVER, [str(config)], jvm=SERVER_JVM)
        self.process: Child = children.start("the broker", command, folder / "node.log")
        for data in sets:
            self._fill(data)

    def _fill(self, data: Data) -> None:
        """Write the records with Kafka's own tool; its first request creates the topic."""
        words = ["--topic", topic_of(data), "--num-records", str(data.records), "--record-size", str(data.size_bytes)]
        batch = data.per_batch * (data.size_bytes + 20)
        words += ["--throughput", "-1", "--bootstrap-server", self.servers]
        for word in (f"batch.size={batch}", f"linger.ms={LINGER_MS}", "acks=1"):
            words += ["--command-property", word]
        command = self._kafka.command(Main.PRODUCER_PERFORMANCE, words, log_level="ERROR")
        done = subprocess.run(command, capture_output=True, text=True, timeout=FILL_TIMEOUT_S, check=False)
        if done.returncode or f"{data.records} records sent" not in done.stdout:
            raise LocalQuorumError(f"{data.records} records were not written: {(done.stderr or done.stdout)[-2000:]}")


def topic_of(data: Data) -> str:
    return f"measured-{data.size_bytes}"


class Servers:
    """All of them, and how a session reads from each place."""

    def __init__(self, children: Children, folder: Path, sets: Sequence[Data]) -> None:
        """Write, start and fill. Errors: LocalQuorumError, KafkaUnavailableError."""
        self._quorums: dict[str, Cluster] = {}
        for data in sets:
            home = folder / data.name.replace(" ", "-")
            home.mkdir()
            cluster = Cluster(children, home, size=1, throughput=0)
            (node,) = cluster.nodes.values()
            node.partition.mkdir(parents=True)
            write_log(node.partition, data.records, data.size_bytes, data.per_batch)
            self._quorums[data.name] = cluster
        for cluster in self._quorums.values():
            cluster.start()
        self._broker = Broker(children, folder / "kafka", sets)

    def source(self, place: str, data: Data) -> tuple[str, Mapping[str, str]]:
        if place == "broker":
            servers = {"kafka.bootstrap.servers": self._broker.servers, "subscribe": topic_of(data)}
            return "kafka", servers | {"startingOffsets": "earliest"}
        (node,) = self._quorums[data.name].nodes.values()
        if place == "live":
            return "pykraft", {"bootstrap.controllers": f"{HOST}:{node.port}"}
        return "pykraft", {"path": str(node.partition)}

    def process(self, place: str, data: Data) -> Child:
        if place == "broker":
            return self._broker.process
        (node,) = self._quorums[data.name].nodes.values()
        return node.process


SEGMENT_SIZE_BYTES = 1 << 30
POOL_SIZE_BYTES = 1 << 20


def write_log(folder: Path, records: int, size_bytes: int, per_batch: int) -> int:
    """Write a partition directory with these records; returns its size in bytes."""
    pool = os.urandom(POOL_SIZE_BYTES) + bytes(size_bytes)
    written = 0
    segment = None
    for base_offset in range(0, records, per_batch):
        if segment is None or segment.tell() > SEGMENT_SIZE_BYTES:
            if segment is not None:
                segment.close()
            segment = (folder / segment_file(Offset(base_offset), LOG)).open("wb")
        count = min(per_batch, records - base_offset)
        starts = ((base_offset + index) * 64 % POOL_SIZE_BYTES for index in range(count))
        values = [pool[start : start + size_bytes] for start in starts]
        data = encode_batch(values, base_offset=Offset(base_offset), epoch=Epoch(1), timestamp_ms=base_offset).data
        written += segment.write(data)
    if segment is not None:
        segment.close()
    return written
