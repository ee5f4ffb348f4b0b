"""Kafka's own producers, consumers and tools at home on a quorum of ours, by the commands of Kafka's README of 2020."""

import asyncio
import json
import os
import subprocess
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from lab.kafka.java import Kafka
from lab.nodes.cluster import Cluster
from lab.nodes.logs import read_stream
from pykraft.client import Node, configure
from pykraft.config import TEST_TOPIC_NAME
from pykraft.local.child import Children
from pykraft.local.voters import HOST, PARTITION, free_ports
from pykraft.protocol.records import scan
from tests.kafka.archive import VARIABLE
from tests.kafka.broker_calls import broker_calls
from tests.kafka.clients.kills import wrong_codecs
from tests.kafka.clients.verdict import codecs_of
from tests.kafka.produce_calls import produce_as_new_producer

pytestmark = pytest.mark.kafka

BIN = Path(__file__).resolve().parents[2] / "bin"
TOOLS = "org.apache.kafka.tools"
TOPIC = "__cluster_metadata"
TIMEOUT_S = 60.0


def environment() -> dict[str, str]:
    """A JVM that starts soon."""
    jvm = "-Xmx128m -XX:+UseSerialGC -XX:TieredStopAtLevel=1"
    if VARIABLE in os.environ:
        jvm += f" -XX:SharedArchiveFile={os.environ[VARIABLE]}"
    return os.environ | {"KAFKA_HEAP_OPTS": jvm}


def start(script: str, *words: str) -> subprocess.Popen[str]:
    """A script of ``bin`` that runs; what it prints can be read."""
    return subprocess.Popen([str(BIN / script), *words], env=environment(), stdout=subprocess.PIPE, text=True)


def write_as_another(port: int) -> int:
    """Another idempotent producer writes one batch; the offset of its record."""
    with broker_calls(port) as calls:
        answer = produce_as_new_producer(calls)
    assert answer.error_code is ErrorCode.none
    return int(answer.base_offset)


async def forget_twice(java: subprocess.Popen[str], port: int, offsets: list[int]) -> None:
    """Have the node forget this producer twice, each time when it goes on; ``offsets`` gets what it was told."""
    assert java.stdout is not None
    for _ in range(3):
        forgotten_at = await asyncio.to_thread(write_as_another, port) if offsets else -1
        while not offsets or offsets[-1] < forgotten_at:
            told = json.loads(await asyncio.to_thread(java.stdout.readline))
            assert told["name"] != "producer_send_error", told
            if told["name"] == "producer_send_success":
                offsets.append(told["offset"])


def run(script: str, *words: str) -> str:
    """What a script of ``bin`` prints; it succeeds."""
    done = subprocess.run(
        [str(BIN / script), *words], env=environment(), capture_output=True, text=True, timeout=TIMEOUT_S, check=False
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


def a_listener_for_clients(children: Children, folder: Path) -> tuple[Cluster, str]:
    """Start static voters that serve clients on a listener of their own; they, and where a follower serves clients."""
    cluster = Cluster(children, folder, throughput=0, properties={"pykraft.client.listeners": "CLIENTS"})
    ports = dict(zip(cluster.nodes, free_ports(len(cluster.nodes)), strict=True))
    for node_id, node in cluster.nodes.items():
        with node.config.open("a") as config:
            config.write(f"listeners=PLAINTEXT://{HOST}:{node.port},CLIENTS://{HOST}:{ports[node_id]}\n")
    leader = cluster.start().node
    return cluster, next(f"{HOST}:{port}" for node_id, port in ports.items() if node_id != leader)


def test_a_java_producer_writes_every_compression_and_a_java_consumer_reads_it(
    kafka: Kafka, children: Children, tmp_path: Path
) -> None:
    """They know one follower only, on a listener where no replica is, and find the leader from there."""
    assert kafka.jars.is_dir()
    cluster, servers = a_listener_for_clients(children, tmp_path)
    bootstrap = ("--bootstrap-server", servers)
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
    assert list(wrong_codecs(codecs_of(read_stream(cluster.nodes[1].partition)), codecs)) == []


def test_a_java_producer_that_was_forgotten_goes_on(kafka: Kafka, tmp_path: Path) -> None:
    """The node remembers one producer: each write of another one makes it forget Java's."""
    assert kafka.jars.is_dir()
    [port] = free_ports(1)
    servers, producer = f"{HOST}:{port}", tmp_path / "producer.properties"
    # The tool itself sets retries=0.
    producer.write_text("enable.idempotence=true\nacks=all\nretries=2147483647\ndelivery.timeout.ms=60000\n")
    words = ["--bootstrap-server", servers, "--topic", TOPIC, "--max-messages", "100000", "--throughput", "10"]
    words += ("--command-config", str(producer))
    config = configure(tmp_path / "node", node_id=1, voters={1: servers})
    config = replace(config, client_listeners=("PLAINTEXT",), client_producers_max=1)

    async def story() -> list[int]:
        offsets: list[int] = []
        async with Node(config, own_thread=True) as node:
            await node.wait_for_leader()
            with start("kafka-run-class.sh", f"{TOOLS}.VerifiableProducer", *words) as java:
                try:
                    await forget_twice(java, port, offsets)
                finally:
                    java.terminate()
        return offsets

    offsets = asyncio.run(story())
    batches = [header for _, header in scan(read_stream(tmp_path / "node" / PARTITION).data)]
    of_java = [each for each in batches if each.producer_id == batches[-1].producer_id]
    assert [epoch for epoch, _ in groupby(each.producer_epoch for each in of_java)] == [0, 1, 2]
    written = [offset for each in of_java for offset in range(each.base_offset, each.end_offset)]
    assert offsets == written[: len(offsets)]


def test_kafkas_tools_describe_our_quorum_to_whoever_asks_a_follower(
    kafka: Kafka, children: Children, tmp_path: Path
) -> None:
    """A tool that knows one follower only finds the leader, if it needs it."""
    assert kafka.jars.is_dir()
    leader, nodes = a_quorum(children, tmp_path)
    follower = next(address for node_id, address in nodes.items() if node_id != leader)

    def output_of(main: str, *words: str, asked_as: str = "--bootstrap-server") -> str:
        return run("kafka-run-class.sh", f"{TOOLS}.{main}", asked_as, follower, *words)

    # The admin client takes any node for a broker that would forward this: it comes to the leader after refusals.
    assert f"LeaderId:               {leader}" in output_of("MetadataQuorumCommand", "describe", "--status")
    rows = output_of("MetadataQuorumCommand", "describe", "--replication").splitlines()
    assert [row.split("\t")[6].strip() for row in rows] == ["Status", "Leader", "Follower", "Follower"]
    assert "kraft.version" in output_of("FeatureCommand", "describe")
    assert "Produce(0): 0 to 13" in output_of("BrokerApiVersionsCommand"), "as Kafka lists it (KAFKA-18659)"
    endpoints = run("kafka-run-class.sh", f"{TOOLS}.ClusterTool", "list-endpoints", "--bootstrap-controller", follower)
    assert [row.split()[0] for row in endpoints.splitlines()[1:]] == ["1", "2", "3"]
    assert f"Leader: {leader}\tReplicas: 1,2,3" in output_of("TopicCommand", "--describe")
