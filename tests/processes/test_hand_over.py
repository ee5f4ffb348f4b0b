"""A leader that gets SIGTERM hands over, and a killed one is missed at once: no timeout has to expire before."""

import signal
import socket
import time
from pathlib import Path

import pytest

from lab.nodes.cluster import Cluster, JournalKeeper, PykraftNode
from pykraft.local.child import Children, wait_until
from pykraft.local.voters import HOST, free_ports
from tests.processes.commands import stop_under_load

pytestmark = pytest.mark.processes

PATIENT = {"controller.quorum.election.timeout.ms": "3000", "controller.quorum.fetch.timeout.ms": "10000"}
"""Without a hand-over nobody campaigns within the five seconds in which a node leaves."""
FETCH_TIMEOUT_S = 10
LEFT = "shut down gracefully"
TOO_LATE = "the shutdown timed out"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_hands_leadership_over(children: Children, tmp_path: Path, number: signal.Signals) -> None:
    cluster = Cluster(children, tmp_path, properties=PATIENT)
    leader = cluster.nodes[cluster.start().node]
    cluster.journal.wait_for_acknowledged(500, since=0)

    mark = cluster.journal.mark()
    leader.process.signal(number)
    led = cluster.journal.wait_for_leader(since=mark)
    assert led.node != leader.node_id
    assert leader.process.wait() == 0
    assert LEFT in leader.process.log()

    leader.start()
    cluster.journal.wait_for_acknowledged(500, since=cluster.journal.mark(), except_by=leader.node_id)
    stop_under_load(cluster)


def test_a_killed_leader_is_replaced_long_before_the_fetch_timeout(children: Children, tmp_path: Path) -> None:
    cluster = Cluster(children, tmp_path, properties=PATIENT)
    leader_id, journal = int(cluster.start().node), cluster.journal
    for _ in range(2):
        journal.wait_for_acknowledged(500, since=journal.mark())
        cluster.wait_until_caught_up()
        mark, begun_s = journal.mark(), time.monotonic()
        cluster.nodes[leader_id].process.kill()
        journal.wait_for_acknowledged(1, since=mark, except_by=leader_id)
        assert time.monotonic() - begun_s < FETCH_TIMEOUT_S / 2
        cluster.nodes[leader_id].start()
        journal.wait_for_started(leader_id, since=mark, process=cluster.nodes[leader_id].process)
        leader_id = journal.leader_id()

    stop_under_load(cluster)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_it_at_once(children: Children, tmp_path: Path, number: signal.Signals) -> None:
    ports = dict(zip((1, 2, 3), free_ports(3), strict=True))
    journal = JournalKeeper(tmp_path / "journal.jsonl")
    node = PykraftNode(children, journal, tmp_path / "n1", node_id=1, ports=ports)
    # The others say nothing. If they refused connections, it would not wait for them.
    with socket.create_server((HOST, ports[2])), socket.create_server((HOST, ports[3])):
        node.start()
        journal.wait_for_started(1, since=0, process=node.process)
        node.process.signal(number)
        wait_until(lambda: "shutting down as" in node.process.log(), "its shutdown to begin", alive=[node.process])
        node.process.signal(number)
        assert node.process.wait() == 0
    assert not [words for words in (LEFT, TOO_LATE, "Traceback") if words in node.process.log()]


def test_the_last_of_a_quorum_that_is_stopped_waits_for_nobody(children: Children, tmp_path: Path) -> None:
    cluster = Cluster(children, tmp_path, size=2, properties=PATIENT)
    cluster.start()
    assert cluster.stop() == {1: 0, 2: 0}
    logs = [node.process.log() for node in cluster.nodes.values()]
    assert all(LEFT in log and TOO_LATE not in log for log in logs), logs
