"""Kafka's clients in Python on a quorum whose listeners are SSL and want a certificate: one writes, all read it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lab.nodes.cluster import Cluster
from pykraft.local.child import Children
from pykraft.local.voters import HOST, LISTENER, SOURCES
from tests.security.credentials import properties

pytestmark = pytest.mark.kafka


def test_clients_of_three_libraries_use_a_secured_quorum(children: Children, tmp_path: Path) -> None:
    values = properties(tmp_path / "certificates")
    given = {**values, "listener.security.protocol.map": f"{LISTENER}:SSL", "pykraft.client.listeners": LISTENER}
    cluster = Cluster(children, tmp_path, throughput=0, properties=given)
    cluster.start()
    servers = ",".join(f"{HOST}:{node.port}" for node in cluster.nodes.values())
    words = (servers, values["ssl.keystore.location"], values["ssl.truststore.location"])
    done = subprocess.run(
        [sys.executable, "-m", "tests.kafka.clients.over_tls", *words],
        env=os.environ | {"PYTHONPATH": f"{SOURCES}:{SOURCES.parent}"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout) == {
        "errors": ["None"] * 3,
        "read": {"librdkafka": True, "aiokafka": True, "kafka-python": True},
        "stranger": "refused",
    }
    assert set(cluster.stop().values()) == {0}
