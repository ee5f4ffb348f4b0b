"""Clients of other languages than Java on a quorum of ours: every compression, metadata, offsets, an unknown topic."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from lab.nodes.cluster import Cluster
from lab.nodes.logs import read_stream
from pykraft.local.child import Children
from pykraft.local.voters import HOST, SOURCES
from tests.kafka.clients.catalog import CONTENDERS, Library, Order, Program
from tests.kafka.clients.kills import TOPIC as RECORDS
from tests.kafka.clients.kills import wrong_codecs
from tests.kafka.clients.program import CASE_COUNT, COMPRESSIONS
from tests.kafka.clients.verdict import Place, codecs_of, records_of

pytestmark = pytest.mark.kafka

TOPIC = "__cluster_metadata"
ALL = CASE_COUNT * len(COMPRESSIONS)
COUNT = 100
PROPERTIES = {
    "pykraft.client.listeners": "PLAINTEXT",
    "pykraft.client.topic": RECORDS,
    "group.initial.rebalance.delay.ms": "0",
}
TIMEOUT_S = 60.0


@pytest.mark.parametrize(
    ("module", "unknown_topic"),
    [("confluent", "UNKNOWN_TOPIC_OR_PART"), ("aio", "UnknownTopicOrPartitionError"), ("pure", "KafkaTimeoutError")],
)
def test_a_client_library_uses_our_quorum(module: str, unknown_topic: str, children: Children, tmp_path: Path) -> None:
    cluster = Cluster(children, tmp_path, throughput=0, properties={"pykraft.client.listeners": "PLAINTEXT"})
    leader = cluster.start()
    servers = ",".join(f"{HOST}:{node.port}" for node in cluster.nodes.values())
    done = subprocess.run(
        [sys.executable, "-m", f"tests.kafka.clients.{module}", "case", "--servers", servers, "--topic", TOPIC],
        env=os.environ | {"PYTHONPATH": f"{SOURCES}:{SOURCES.parent}"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout) == {
        "acknowledged": ALL,
        "first_offset": 1,
        "read_in_place": ALL,
        "read_whole": ALL,
        "is_in_order": True,
        "unknown_topic": unknown_topic,
        "cluster_id": cluster.cluster_id,
        "nodes": [1, 2, 3],
        "leader": leader.node,
        "start_offset": 0,
        "end_offset": ALL + 1,
        "offset_of_time": 1,
    }
    codecs = codecs_of(read_stream(cluster.nodes[leader.node].partition))
    assert {name: found - {"none"} for name, found in codecs.items()} == {
        name: {name} - {"none"} for name in COMPRESSIONS
    }


@pytest.mark.parametrize("name", ["franz-go", "sarama", "kafka-go", "KafkaJS"])
def test_a_client_writes_each_compression_and_reads_it(name: str, children: Children, tmp_path: Path) -> None:
    contender = CONTENDERS[name]
    assert isinstance(contender, Library)
    cluster = Cluster(children, tmp_path, throughput=0, properties=PROPERTIES)
    leader = cluster.start()
    order = Order(
        servers=",".join(f"{HOST}:{node.port}" for node in cluster.nodes.values()),
        topic=RECORDS,
        count=COUNT,
        folder=tmp_path,
        is_idempotent=contender.has_idempotence,
    )
    sent: list[Place] = []
    for segment, codec in enumerate(contender.compressions):
        sent += places_of(contender.producer(replace(order, segment=segment, compression=codec)))
    assert [value for _, value in sent] == [
        f"{segment}.{number}" for segment in range(len(contender.compressions)) for number in range(COUNT)
    ]
    stream = read_stream(cluster.nodes[leader.node].partition)
    assert records_of(stream) == sent
    assert list(wrong_codecs(codecs_of(stream), contender.compressions)) == []
    words = [*contender.command(), "describe", "--servers", order.servers, "--topic", RECORDS]
    assert json.loads(output_of(words)) == {
        "cluster_id": cluster.cluster_id,
        "nodes": [1, 2, 3],
        "leader": leader.node,
        "start_offset": 0,
        "end_offset": len(sent) + 1,
        "offset_of_time": 1,
        "topics": [RECORDS],
    }
    assert places_of(contender.consumer(replace(order, offset=1, count=len(sent)))) == sent
    for part in (sent[: COUNT // 2], sent[COUNT // 2 : COUNT + 1]):
        assert places_of(contender.member(replace(order, count=len(part)))) == part, "it goes on where it committed"


def places_of(program: Program) -> list[Place]:
    """The records that a client names, when it has ended well."""
    found = map(program.place_of, output_of(program.command, program.environment).splitlines())
    return [place for place in found if place is not None]


def output_of(command: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
    whole = {**os.environ, **(environment or {})}
    done = subprocess.run(command, env=whole, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
