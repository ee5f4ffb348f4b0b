"""The runner for Kafka's nodes does what the other tests rely on, shown with Java nodes alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.kafka.java import Kafka
from lab.kafka.peer import STOPPED_BY_SIGTERM, JavaNode
from pykraft.local.child import Children
from pykraft.local.logs import read_stream, require_identical, wait_for_end_offset
from pykraft.local.ports import free_ports
from tests.processes.elections import wait_for_known_leader

pytestmark = pytest.mark.kafka


def test_two_java_nodes_form_a_quorum_and_go_on_after_a_kill(kafka: Kafka, children: Children, tmp_path: Path) -> None:
    ports = dict(zip((1, 2), free_ports(2), strict=True))
    nodes = {i: JavaNode(kafka, children, tmp_path / f"n{i}", node_id=i, ports=ports) for i in ports}
    for node in nodes.values():
        node.start()
    first = wait_for_known_leader(nodes[1].partition, nodes[1].process)
    leader, follower = nodes[first.id], nodes[3 - first.id]
    wait_for_end_offset(follower.partition, 20, follower.process)

    leader.process.kill()
    leader.start()
    second = wait_for_known_leader(follower.partition, follower.process, after_epoch=first.epoch)
    end = read_stream(nodes[second.id].partition).end_offset
    for node in nodes.values():
        wait_for_end_offset(node.partition, end + 20, node.process)

    assert {node.process.stop() for node in nodes.values()} == {STOPPED_BY_SIGTERM}
    require_identical({str(i): read_stream(node.partition) for i, node in nodes.items()}, end_offset=end)
