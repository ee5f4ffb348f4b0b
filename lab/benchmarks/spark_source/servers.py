"""What the sessions read from: a Kafka broker, a quorum of one pykraft node for each set of data, and its files.

The records are in the node's log, which is written before the node starts. The connector's own sink copies them into
the broker's topics of two partitions, one for each core. Both have batches of about the same size.
"""

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from lab.benchmarks.spark_source.cases import Data
from lab.benchmarks.spark_source.decoder import cases, write_case
from lab.kafka.jars import COPY_GOAL
from lab.kafka.java import SERVER_JVM, Kafka, Main
from lab.nodes.cluster import Cluster
from pykraft.errors import LocalQuorumError, UsageError
from pykraft.local.child import Child, Children
from pykraft.local.voters import HOST, free_ports, write_properties
from pykraft.process.extras import cache_folder
from pykraft.types import Uuid, uuid_text

CONNECTOR_VERSION: Final = "4.2.0"
JARS: Final = ("spark-sql-kafka-0-10_2.13", "spark-token-provider-kafka-0-10_2.13", "kafka-clients", "commons-pool2")
"""What pip's pyspark lacks."""
FETCH_TIMEOUT_S: Final = 600.0
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
    """A node of Kafka, broker and controller."""

    def __init__(self, children: Children, folder: Path) -> None:
        """Start it; `Servers.order_to_fill` is for its topics. Errors: LocalQuorumError, KafkaUnavailableError."""
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


def topic_of(data: Data) -> str:
    return re.sub("[^a-z0-9]+", "-", data.name.lower())


class Servers:
    """All of them, and how a session reads from each place."""

    def __init__(self, children: Children, folder: Path, sets: Sequence[Data]) -> None:
        """Write the logs and start all. Errors: LocalQuorumError, KafkaUnavailableError."""
        self._quorums: dict[str, Cluster] = {}
        self._cases = {case.name: case for case in cases()}
        for data in sets:
            home = folder / topic_of(data)
            home.mkdir()
            cluster = Cluster(children, home, size=1, throughput=0)
            (node,) = cluster.nodes.values()
            write_case(node.partition, self._cases[data.name], data.records)
            self._quorums[data.name] = cluster
        for cluster in self._quorums.values():
            cluster.start()
        self._broker = Broker(children, folder / "kafka")

    def order_to_fill(self, data: Data) -> Mapping[str, Any]:
        """For the session that has the connector: write the log's records into the topic, in batches of about its size.

        Its first request creates the topic.
        """
        case = self._cases[data.name]
        _, place = self.source("files", data)
        producer = {
            "batch.size": case.batch_size_bytes,
            "linger.ms": LINGER_MS,
            "acks": 1,
            "compression.type": case.codec.name.lower(),
            "bootstrap.servers": self._broker.servers,
        }
        into = {f"kafka.{name}": str(value) for name, value in producer.items()}
        return {
            "format": "pykraft",
            "options": {**place, "columns": "kafka", "includeHeaders": "true"},
            "schema": None,
            "select": ("key", "value", "headers"),
            "act": "kafka",
            "into": into | {"topic": topic_of(data), "includeHeaders": "true"},
        }

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
