"""Kafka's own tools and clients hear from our authorizer what they would hear from Kafka's.

Source: Kafka 4.3's tools; librdkafka.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lab.kafka.java import Kafka, Main
from lab.nodes.cluster import Cluster
from pykraft.config import METADATA_TOPIC_NAME
from pykraft.local.child import Children
from pykraft.local.voters import HOST, LISTENER, SOURCES
from pykraft.security.acls import STANDARD_AUTHORIZER
from tests.security.credentials import HOSTS, authority, properties, write

pytestmark = pytest.mark.kafka

RULES = f"""
--allow-principal User:CN=reader --consumer --topic {METADATA_TOPIC_NAME} --group readers
--allow-principal User:CN=reader --operation Describe --cluster
--allow-principal User:CN=writer --producer --topic {METADATA_TOPIC_NAME} --idempotent
"""
PROGRAM = """
import json, sys
from confluent_kafka import Consumer, Producer, TopicPartition

servers, trusted, topic, *people = sys.argv[1:]
found = {}
for own in people:
    config = {"bootstrap.servers": servers, "security.protocol": "ssl", "ssl.ca.location": trusted}
    config |= {"ssl.certificate.location": own, "ssl.key.location": own}
    errors = []
    producer = Producer({**config, "message.timeout.ms": 10_000})
    producer.produce(topic, value=b"one", partition=0, on_delivery=lambda error, _: errors.append(error))
    producer.flush(20)
    wrote = [error.name() if error else "" for error in errors]
    consumer = Consumer({**config, "group.id": "readers"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    message = consumer.poll(20)
    read = "nothing" if message is None else message.error().name() if message.error() else ""
    if not read:
        consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    consumer.close()
    found[own.rsplit("/", 1)[-1]] = [*wrote, read]
print(json.dumps(found))
"""


def secured(children: Children, folder: Path) -> tuple[Cluster, dict[str, str]]:
    """A quorum with an authorizer whose nodes are super users, and which serves clients."""
    values = properties(folder / "certificates")
    rules = folder / "rules"
    rules.write_text(RULES)
    given = {
        **values,
        "listener.security.protocol.map": f"{LISTENER}:SSL",
        "pykraft.client.listeners": LISTENER,
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:CN=node",
        "pykraft.acl.file": str(rules),
    }
    cluster = Cluster(children, folder, throughput=0, properties=given)
    cluster.start()
    return cluster, values


def test_kafkas_tool_is_refused_as_by_kafka(children: Children, kafka: Kafka, tmp_path: Path) -> None:
    cluster, values = secured(children, tmp_path)
    address = f"{HOST}:{cluster.nodes[1].port}"

    def shown(name: str, *words: str) -> tuple[int, str]:
        location = write(tmp_path / f"{name}.pem", authority().issue(name, HOSTS))
        config = tmp_path / f"{name}.properties"
        trusted = values["ssl.truststore.location"]
        config.write_text(
            "security.protocol=SSL\nssl.keystore.type=PEM\nssl.truststore.type=PEM\n"
            f"ssl.keystore.location={location}\nssl.truststore.location={trusted}\n"
        )
        done = kafka.run(
            Main.QUORUM, "--bootstrap-controller", address, "--command-config", str(config), *words, timeout_s=90
        )
        return done.status, done.stdout + done.stderr

    status, text = shown("reader", "describe", "--status")
    assert status == 0, text
    assert "LeaderId" in text
    status, text = shown("nobody", "describe", "--status")
    assert status != 0
    assert "ClusterAuthorizationException" in text
    removed = ("remove-controller", "--controller-id", "3", "--controller-directory-id", "AAAAAAAAAAAAAAAAAAAAAQ")
    status, text = shown("reader", *removed)
    assert status != 0
    assert "ClusterAuthorizationException" in text
    assert set(cluster.stop().values()) == {0}


def test_librdkafka_is_refused_by_topic_and_group(children: Children, tmp_path: Path) -> None:
    cluster, values = secured(children, tmp_path)
    servers = ",".join(f"{HOST}:{node.port}" for node in cluster.nodes.values())
    people = [write(tmp_path / name, authority().issue(name, HOSTS)) for name in ("writer", "reader", "nobody")]
    words = (servers, values["ssl.truststore.location"], METADATA_TOPIC_NAME, *people)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words],
        env=os.environ | {"PYTHONPATH": f"{SOURCES}:{SOURCES.parent}"},
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    topic, group = "TOPIC_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED"
    wrote, read = zip(*(json.loads(done.stdout)[name] for name in ("writer", "reader", "nobody")), strict=True)
    assert wrote == ("", topic, topic)
    assert read[1] == ""
    # It fetches and looks for the coordinator at the same time, and passes on what it hears first.
    assert {read[0], read[2]} <= {topic, group}
    assert set(cluster.stop().values()) == {0}
