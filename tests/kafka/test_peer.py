"""The runner for Kafka's nodes does what the other tests rely on, shown with Java nodes alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kafka.java import Kafka
from tests.kafka.peer import STOPPED_BY_SIGTERM, JavaNode
from tests.processes.child import Children
from tests.processes.logs import assert_identical, read_stream
from tests.processes.ports import free_ports
from tests.processes.waiting import wait_until

pytestmark = pytest.mark.kafka


def test_two_java_nodes_form_a_quorum_and_go_on_after_a_kill(kafka: Kafka, children: Children, tmp_path: Path) -> None:
    ports = dict(zip((1, 2), free_ports(2), strict=True))
    nodes = {i: JavaNode(kafka, children, tmp_path / f"n{i}", node_id=i, ports=ports) for i in ports}
    for node in nodes.values():
        node.start()
    first = wait_until(nodes[1].leader, "the first leader", alive=[nodes[1].process])
    leader, follower = nodes[first.id], nodes[3 - first.id]
    _wait_for_records(follower, 20)

    leader.process.kill()
    leader.start()
    second = wait_until(lambda: follower.leader(after_epoch=first.epoch), "a leader of a later epoch")
    end = read_stream(nodes[second.id].partition).end_offset
    for node in nodes.values():
        _wait_for_records(node, end + 20)

    assert {node.process.stop() for node in nodes.values()} == {STOPPED_BY_SIGTERM}
    assert_identical({str(i): read_stream(node.partition) for i, node in nodes.items()})


def _wait_for_records(node: JavaNode, end_offset: int) -> None:
    wait_until(
        lambda: read_stream(node.partition).end_offset > end_offset,
        f"node {node.node_id} to have offset {end_offset}",
        alive=[node.process],
    )
