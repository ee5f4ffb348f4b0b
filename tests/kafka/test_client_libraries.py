"""Clients in Python at home on a quorum of ours: every compression, metadata, offsets, and an unknown topic."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lab.nodes.cluster import Cluster
from pykraft.local.child import Children
from pykraft.local.voters import HOST, SOURCES
from tests.kafka.clients.program import CASE_COUNT, COMPRESSIONS

pytestmark = pytest.mark.kafka

TOPIC = "__cluster_metadata"
ALL = CASE_COUNT * len(COMPRESSIONS)
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
