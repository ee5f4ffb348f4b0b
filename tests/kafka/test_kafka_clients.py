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
from pykraft.local.ports import HOST

pytestmark = pytest.mark.kafka

BIN = Path(__file__).resolve().parents[2] / "bin"
TOOLS = "org.apache.kafka.tools"
TOPIC = "__cluster_metadata"
TIMEOUT_S = 60.0


def run(script: str, *words: str) -> str:
    """What a script of ``bin`` prints; it succeeds."""
    done = subprocess.run(
        [str(BIN / script), *words],
        env=os.environ | {"KAFKA_HEAP_OPTS": "-Xmx128m -XX:+UseSerialGC -XX:TieredStopAtLevel=1"},
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
