"""Stream frameworks and the oldest librdkafka that has a wheel for our oldest Python, on a quorum of ours."""

import json
import os
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

from lab.nodes.cluster import Cluster
from lab.nodes.logs import read_stream
from pykraft.local.child import Children
from pykraft.local.voters import HOST, SOURCES
from tests.beside import environment, install
from tests.kafka import clients
from tests.kafka.clients.kills import TOPIC as RECORDS
from tests.kafka.clients.program import COMPRESSIONS
from tests.kafka.clients.verdict import codecs_of
from tests.kafka.test_client_libraries import ALL, PROPERTIES, TIMEOUT_S

pytestmark = pytest.mark.kafka

COUNT = 100
CLIENTS = Path(clients.__file__).parent


def output_of(module: str, *words: str, requirements: str) -> object:
    """What a program of ours prints with these packages before all others."""
    found = environment(install(CLIENTS / requirements))
    found["PYTHONPATH"] = os.pathsep.join([found["PYTHONPATH"], str(SOURCES), str(SOURCES.parent)])
    command = [sys.executable, "-m", f"tests.kafka.clients.{module}", *words]
    done = subprocess.run(command, env=found, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(("framework", "parts"), [("bytewax", [COUNT]), ("quix", [COUNT // 2, COUNT // 2])])
def test_a_stream_framework_writes_and_reads(
    framework: str, parts: list[int], children: Children, tmp_path: Path
) -> None:
    cluster = Cluster(children, tmp_path, throughput=0, properties=PROPERTIES)
    cluster.start()
    servers = ",".join(f"{HOST}:{node.port}" for node in cluster.nodes.values())
    found = output_of("frameworks", framework, servers, RECORDS, str(COUNT), requirements="frameworks.txt")
    values = iter(map(str, range(COUNT)))
    assert found == [[*islice(values, part)] for part in parts]


def test_the_oldest_librdkafka_is_served(children: Children, tmp_path: Path) -> None:
    cluster = Cluster(children, tmp_path, throughput=0, properties=PROPERTIES)
    leader = cluster.start()
    servers = ",".join(f"{HOST}:{node.port}" for node in cluster.nodes.values())
    oldest = "oldest-librdkafka.txt"
    found = output_of("members", "confluent", servers, RECORDS, str(COUNT), requirements=oldest)
    assert isinstance(found, dict)
    records = [*range(2 * COUNT)]
    assert (found["first"], found["second"]) == (records[:COUNT], records[COUNT:])
    assert found["closes_at_once"] is True
    case = output_of("confluent", "case", "--servers", servers, "--topic", RECORDS, requirements=oldest)
    assert isinstance(case, dict)
    assert (case["read_in_place"], case["read_whole"], case["is_in_order"]) == (ALL, ALL, True)
    assert (case["leader"], case["cluster_id"]) == (leader.node, cluster.cluster_id)
    codecs = codecs_of(read_stream(cluster.nodes[leader.node].partition))
    assert {name: found - {"none"} for name, found in codecs.items() if name in COMPRESSIONS} == {
        name: {name} - {"none"} for name in COMPRESSIONS
    }
