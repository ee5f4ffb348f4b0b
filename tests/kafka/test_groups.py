"""Consumer groups of real clients on a quorum of ours: subscribe, commit, close, and the tools for groups."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lab.nodes.cluster import Cluster
from pykraft.local.child import Children
from pykraft.local.voters import HOST, SOURCES
from tests.kafka.test_kafka_clients import TIMEOUT_S, TOOLS, TOPIC, environment, run

pytestmark = pytest.mark.kafka

COUNT = 100
RUN_CLASS = "kafka-run-class.sh"
PROPERTIES = {"pykraft.client.listeners": "PLAINTEXT", "group.initial.rebalance.delay.ms": "0"}


def members(library: str, servers: str) -> dict[str, object]:
    """What `tests.kafka.clients.members` prints."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.kafka.clients.members", library, servers, TOPIC, str(COUNT)],
        env=os.environ | {"PYTHONPATH": f"{SOURCES}:{SOURCES.parent}"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("library", ["confluent", "confluent-consumer", "pure", "aio"])
def test_a_group_goes_on_where_its_last_member_ended(library: str, children: Children, tmp_path: Path) -> None:
    cluster = Cluster(children, tmp_path, throughput=0, properties=PROPERTIES)
    cluster.start()
    servers = ",".join(f"{HOST}:{node.port}" for node in cluster.nodes.values())
    found = members(library, servers)
    refusal = str(found.pop("transactions"))
    assert refusal.startswith("TRANSACTIONAL_ID_AUTHORIZATION_FAILED")
    assert "this quorum has no transactions" in refusal
    records = [*range(2 * COUNT)]
    assert found == {"first": records[:COUNT], "closes_at_once": True, "second": records[COUNT:]}


def test_kafkas_tools_for_groups(children: Children, tmp_path: Path) -> None:
    cluster = Cluster(children, tmp_path, throughput=0, properties=PROPERTIES)
    cluster.start()
    servers = ",".join(f"{HOST}:{node.port}" for node in cluster.nodes.values())
    assert members("confluent", servers)["closes_at_once"] is True
    next_protocol = ("--command-property", "group.protocol=consumer")
    to = ("--bootstrap-server", servers)
    reads = ("--topic", TOPIC, "--max-messages", str(2 * COUNT))
    console = (RUN_CLASS, f"{TOOLS}.consumer.ConsoleConsumer", *to, *reads, "--timeout-ms", "20000")
    assert len(run(*console, "--group", "console", "--from-beginning").split()) == 2 * COUNT
    assert len(run(*console, "--group", "next", "--from-beginning", *next_protocol).split()) == 2 * COUNT
    groups = (RUN_CLASS, f"{TOOLS}.consumer.group.ConsumerGroupCommand", *to)
    assert set(run(*groups, "--list").split()) == {"members", "console", "next"}
    described = run(*groups, "--describe", "--group", "console")
    [row] = (line.split() for line in described.splitlines() if line.startswith("console"))
    assert row[1:3] == [TOPIC, "0"]
    # Consumers skip the batches of groups, but these have offsets.
    assert int(row[3]) >= 1 + 2 * COUNT
    assert 0 <= int(row[5]) < COUNT
    assert "uniform" in run(*groups, "--describe", "--state", "--group", "next")
    reset = ("--group", "console", "--topic", TOPIC, "--reset-offsets", "--to-earliest", "--execute")
    assert run(*groups, *reset).split()[-1] == "0"
    verifiable = (RUN_CLASS, f"{TOOLS}.VerifiableConsumer", *to, "--group-id", "console", *reads[:2])
    told = [json.loads(line) for line in run(*verifiable, "--max-messages", str(COUNT)).splitlines()]
    assert sum(each["count"] for each in told if each["name"] == "records_consumed") >= COUNT
    # Each JVM costs seconds, so this group is of the tool's making, and it goes with the others.
    measure = (RUN_CLASS, f"{TOOLS}.ConsumerPerformance", *to, "--topic", TOPIC, "--num-records", str(2 * COUNT))
    measured = run(*measure, "--group", "measured", "--hide-header")
    assert int(measured.split(", ")[4]) >= 2 * COUNT
    assert run(*groups, "--delete", "--group", "members", "--group", "measured").count("successful") >= 1
    share = (str(Path(__file__).resolve().parents[2] / "bin" / RUN_CLASS), f"{TOOLS}.consumer.ConsoleShareConsumer")
    done = subprocess.run(
        [*share, *to, "--topic", TOPIC, "--timeout-ms", "10000"],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert "does not support the share group protocol" in done.stdout + done.stderr
