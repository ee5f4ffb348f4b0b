"""A pykraft leader transfers its leadership to a Kafka node; only Kafka's own messages are used."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from lab.kafka.java import STOPPED_BY_SIGTERM, JavaNode, Kafka
from lab.nodes.cluster import JournalKeeper, PykraftNode
from lab.nodes.logs import read_stream, require_identical, wait_for_end_offset
from lab.nodes.verdict import check_journal
from pykraft.cli.main import pykraft
from pykraft.errors import UsageError
from pykraft.local.child import Children, wait_until
from pykraft.local.journal import record_spans
from pykraft.local.voters import HOST, free_ports
from tests.processes.elections import wait_for_known_leader

pytestmark = pytest.mark.kafka

JAVA = 3
RECORDS = 100


def test_kafkas_node_leads_when_it_is_named(kafka: Kafka, children: Children, tmp_path: Path) -> None:
    ports = dict(zip((1, 2, JAVA), free_ports(3), strict=True))
    journal = JournalKeeper(tmp_path / "journal.jsonl")
    ours = {
        i: PykraftNode(children, journal, tmp_path / f"n{i}", node_id=i, ports=ports, throughput=200) for i in (1, 2)
    }
    java = JavaNode(kafka, children, tmp_path / f"n{JAVA}", node_id=JAVA, ports=ports, throughput=200)
    bootstrap = ",".join(f"{HOST}:{ports[i]}" for i in ours)

    def transfer(to: int) -> Result:
        words = ["quorum", "--bootstrap-controller", bootstrap, "--timeout", "5", "transfer", "--to", str(to)]
        return CliRunner().invoke(pykraft, words)

    for node in ours.values():
        node.format()  # or they would wait for Kafka's node
        node.start()
    led = journal.wait_for_leader(since=0)
    journal.wait_for_acknowledged(RECORDS, since=0)
    java.start()
    wait_for_end_offset(java.partition, RECORDS, java.process)

    done = wait_until(lambda: found if (found := transfer(JAVA)).exit_code == 0 else None, "Kafka's node to catch up")
    assert done.stdout.startswith(f"Node {JAVA} leads epoch ")
    known = wait_for_known_leader(java.partition, java.process, after_epoch=led.epoch)
    assert known.id == JAVA
    for node in ours.values():
        assert wait_for_known_leader(node.partition, node.process, after_epoch=led.epoch) == known
    wait_for_end_offset(ours[1].partition, read_stream(java.partition).end_offset + RECORDS, java.process)

    foreign = transfer(1)
    assert isinstance(foreign.exception, UsageError), foreign
    assert "does not offer TransferLeadership" in str(foreign.exception)
    assert {node.process.stop() for node in ours.values()} == {0}
    assert java.process.stop() == STOPPED_BY_SIGTERM

    partitions = {1: ours[1].partition, 2: ours[2].partition, JAVA: java.partition}
    streams = {f"node {node_id}": read_stream(partition) for node_id, partition in partitions.items()}
    require_identical(streams, end_offset=journal.end_offset)
    verdict = check_journal(journal.acknowledgements(), record_spans(streams["node 1"].data))
    assert verdict.is_clean, verdict
