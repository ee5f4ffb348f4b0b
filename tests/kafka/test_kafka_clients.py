"""Kafka's own producers, consumers and tools at home on a quorum of ours, by the commands of Kafka's README of 2020."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from pykraft.config import TEST_TOPIC_NAME
from pykraft.local.child import Children
from pykraft.local.cluster import Cluster
from pykraft.local.kafka.java import Kafka
from pykraft.local.ports import HOST, free_ports
from tests.kafka.archive import VARIABLE

pytestmark = pytest.mark.kafka

BIN = Path(__file__).resolve().parents[2] / "bin"
TOOLS = "org.apache.kafka.tools"
TOPIC = "__cluster_metadata"
TIMEOUT_S = 60.0


def run(script: str, *words: str) -> str:
    """What a script of ``bin`` prints; it succeeds."""
    jvm = "-Xmx128m -XX:+UseSerialGC -XX:TieredStopAtLevel=1"
    if VARIABLE in os.environ:
        jvm += f" -XX:SharedArchiveFile={os.environ[VARIABLE]}"
    done = subprocess.run(
        [str(BIN / script), *words],
        env=os.environ | {"KAFKA_HEAP_OPTS": jvm},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.conformance("H67", "H68")
def test_kafkas_producers_consumers_and_tools_use_our_quorum(kafka: Kafka, children: Children, tmp_path: Path) -> None:
    assert kafka.jars.is_dir()
    cluster = Cluster(children, tmp_path, throughput=0, properties={"pykraft.client.listeners": "PLAINTEXT"})
    cluster.start()
    servers = ",".join(f"{HOST}:{node.port}" for node in cluster.nodes.values())
    bootstrap = ("--bootstrap-server", servers)

    words = ("--bootstrap-server", f"http://{servers}", "--topic", TOPIC, "--max-messages", "50", "--throughput", "500")
    told = [json.loads(line) for line in run("kafka-run-class.sh", f"{TOOLS}.VerifiableProducer", *words).splitlines()]
    sent = [(each["value"], each["offset"]) for each in told if each["name"] == "producer_send_success"]
    assert [value for value, _ in sent] == [str(number) for number in range(50)]

    (tmp_path / "producer.properties").write_text(f"bootstrap.servers={servers}\ncompression.type=zstd\n")
    words = ("--topic", TOPIC, "--num-records", "2000", "--throughput", "-1", "--record-size", "10")
    measured = run("kafka-producer-perf-test.sh", *words, "--producer.config", str(tmp_path / "producer.properties"))
    assert "2000 records sent" in measured

    words = ("--topic", TOPIC, "--partition", "0", "--offset", str(sent[0][1]), "--max-messages", "2050")
    read = run("kafka-run-class.sh", f"{TOOLS}.consumer.ConsoleConsumer", *bootstrap, *words).splitlines()
    assert read[:50] == [value for value, _ in sent]
    assert {len(value) for value in read[50:]} == {10}

    # This tool looks at the listed topics only, and the log is listed once, by its own name.
    ends = run("kafka-run-class.sh", f"{TOOLS}.GetOffsetShell", *bootstrap)
    assert ends.strip() == f"{TEST_TOPIC_NAME}:0:{sent[0][1] + 2050}"
    assert cluster.cluster_id in run("kafka-run-class.sh", f"{TOOLS}.ClusterTool", "cluster-id", *bootstrap)


def a_quorum(children: Children, folder: Path) -> tuple[int, dict[int, str]]:
    """Start a quorum that serves clients; its leader, and where its nodes listen."""
    cluster = Cluster(children, folder, throughput=0, properties={"pykraft.client.listeners": "PLAINTEXT"})
    leader = cluster.start().node
    return leader, {node_id: f"{HOST}:{node.port}" for node_id, node in cluster.nodes.items()}


def a_listener_for_clients(children: Children, folder: Path) -> str:
    """Start static voters that serve clients on a listener of their own; where a follower serves them."""
    cluster = Cluster(children, folder, throughput=0, properties={"pykraft.client.listeners": "CLIENTS"})
    ports = dict(zip(cluster.nodes, free_ports(len(cluster.nodes)), strict=True))
    for node_id, node in cluster.nodes.items():
        with node.config.open("a") as config:
            config.write(f"listeners=PLAINTEXT://{HOST}:{node.port},CLIENTS://{HOST}:{ports[node_id]}\n")
    leader = cluster.start().node
    return next(f"{HOST}:{port}" for node_id, port in ports.items() if node_id != leader)


def test_a_java_producer_writes_every_compression_and_a_java_consumer_reads_it(
    kafka: Kafka, children: Children, tmp_path: Path
) -> None:
    """They know one follower only, on a listener where no replica is, and find the leader from there."""
    assert kafka.jars.is_dir()
    bootstrap = ("--bootstrap-server", a_listener_for_clients(children, tmp_path))
    codecs = ("none", "gzip", "snappy", "lz4", "zstd")
    sent: list[tuple[int, str]] = []
    for codec in codecs:
        config = tmp_path / f"{codec}.properties"
        config.write_text(f"compression.type={codec}\n")
        chosen = ["--topic", TOPIC, "--max-messages", "20", "--value-prefix", str(codecs.index(codec))]
        chosen += ("--command-config", str(config))
        told = map(
            json.loads, run("kafka-run-class.sh", f"{TOOLS}.VerifiableProducer", *bootstrap, *chosen).splitlines()
        )
        sent += [(each["offset"], each["value"]) for each in told if each["name"] == "producer_send_success"]
    assert [value for _, value in sent] == [f"{codec}.{number}" for codec in range(5) for number in range(20)]

    words = ["--topic", TOPIC, "--partition", "0", "--offset", "earliest", "--max-messages", "100"]
    words += ("--formatter-property", "print.offset=true")
    read = run("kafka-run-class.sh", f"{TOOLS}.consumer.ConsoleConsumer", *bootstrap, *words).splitlines()
    assert read == [f"Offset:{offset}\t{value}" for offset, value in sent]


def test_kafkas_tools_describe_our_quorum_to_whoever_asks_a_follower(
    kafka: Kafka, children: Children, tmp_path: Path
) -> None:
    """A tool that knows one follower only finds the leader, if it needs it."""
    assert kafka.jars.is_dir()
    leader, nodes = a_quorum(children, tmp_path)
    follower = next(address for node_id, address in nodes.items() if node_id != leader)

    def told(main: str, *words: str, asked_as: str = "--bootstrap-server") -> str:
        return run("kafka-run-class.sh", f"{TOOLS}.{main}", asked_as, follower, *words)

    # The admin client takes any node for a broker that would forward this: it comes to the leader after refusals.
    assert f"LeaderId:               {leader}" in told("MetadataQuorumCommand", "describe", "--status")
    rows = told("MetadataQuorumCommand", "describe", "--replication").splitlines()
    assert [row.split("\t")[6].strip() for row in rows] == ["Status", "Leader", "Follower", "Follower"]
    assert "kraft.version" in told("FeatureCommand", "describe")
    assert "Produce(0): 3 to 12" in told("BrokerApiVersionsCommand")
    endpoints = run("kafka-run-class.sh", f"{TOOLS}.ClusterTool", "list-endpoints", "--bootstrap-controller", follower)
    assert [row.split()[0] for row in endpoints.splitlines()[1:]] == ["1", "2", "3"]
    assert f"Leader: {leader}\tReplicas: 1,2,3" in told("TopicCommand", "--describe")
