"""A leader that is asked to end hands over: a follower leads before any election timeout could have passed."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from pykraft.local.child import Children
from pykraft.local.cluster import Cluster, PykraftNode
from pykraft.local.journal_keeper import JournalKeeper
from pykraft.local.ports import free_ports
from pykraft.local.waiting import wait_until

pytestmark = pytest.mark.processes

ELECTION_TIMEOUT_MS = 3_000
PATIENT = {
    "controller.quorum.election.timeout.ms": str(ELECTION_TIMEOUT_MS),
    "controller.quorum.fetch.timeout.ms": "10000",
}
SHUTDOWN_TIMEOUT_S = 5.0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_hands_leadership_over(children: Children, tmp_path: Path, number: signal.Signals) -> None:
    cluster = Cluster(children, tmp_path, properties=PATIENT)
    leader = cluster.nodes[cluster.start().node]
    cluster.journal.wait_for_acknowledged(500, since=0)

    mark, asked_s = cluster.journal.mark(), time.monotonic()
    leader.process.signal(number)
    led = cluster.journal.wait_for_leader(since=mark)
    took_ms = (time.monotonic() - asked_s) * 1_000
    assert led.node != leader.node_id
    assert took_ms < ELECTION_TIMEOUT_MS
    assert leader.process.wait(timeout_s=SHUTDOWN_TIMEOUT_S) == 0

    leader.start()
    cluster.journal.wait_for_acknowledged(500, since=cluster.journal.mark(), except_by=leader.node_id)
    caught_up_offset = cluster.wait_until_caught_up()
    assert cluster.stop() == dict.fromkeys(cluster.nodes, 0)
    verdict = cluster.check(caught_up_offset=caught_up_offset)
    assert verdict.is_clean, verdict


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_it_at_once(children: Children, tmp_path: Path, number: signal.Signals) -> None:
    ports = dict(zip((1, 2, 3), free_ports(3), strict=True))
    journal = JournalKeeper(tmp_path / "journal.jsonl")
    node = PykraftNode(children, journal, tmp_path / "n1", node_id=1, ports=ports)
    node.start()
    journal.wait_for_started(1, since=0, process=node.process)
    asked_s = time.monotonic()
    node.process.signal(number)
    wait_until(lambda: "leaving the quorum" in node.process.log(), "it to begin to leave", alive=[node.process])
    node.process.signal(number)
    assert node.process.wait(timeout_s=SHUTDOWN_TIMEOUT_S) == 0
    assert time.monotonic() - asked_s < SHUTDOWN_TIMEOUT_S / 2
    assert "Traceback" not in node.process.log()
