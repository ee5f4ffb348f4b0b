"""`pykraft quorum transfer` under load: the chosen voter leads, others may be down; nothing acknowledged is lost."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lab.nodes.cluster import Cluster
from pykraft.local.child import Children, wait_until
from pykraft.local.voters import SOURCES
from tests.processes.commands import stop_under_load

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]

PATIENT = {
    "controller.quorum.election.timeout.ms": "5000",
    "controller.quorum.fetch.timeout.ms": "10000",
    "controller.quorum.election.backoff.max.ms": "20000",
}
"""A leader that changes within seconds was changed by its operator."""
RECORDS = 200

Finished = subprocess.CompletedProcess[str]


def begin(cluster: Cluster, to: int, *options: str) -> subprocess.Popen[str]:
    bootstrap = ",".join(map(str, cluster.endpoints))
    words = ["quorum", "transfer", "--bootstrap-controller", bootstrap, "--to", str(to), *options]
    return subprocess.Popen(
        [sys.executable, "-m", "pykraft", *words],
        env=os.environ | {"PYTHONPATH": str(SOURCES)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def transfer(cluster: Cluster, to: int, *options: str) -> tuple[int, str, str]:
    """Run it to its end: status, output, errors."""
    with begin(cluster, to, *options) as process:
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err


def end(cluster: Cluster) -> None:
    stop_under_load(cluster)
    assert not [node for node in cluster.nodes.values() if "Traceback" in node.log_path.read_text()]


@pytest.mark.long
def test_each_of_five_voters_leads_when_it_is_named(children: Children, tmp_path: Path) -> None:
    cluster = Cluster(children, tmp_path, size=5, properties=PATIENT, throughput=500)
    led = cluster.start()
    cluster.journal.wait_for_acknowledged(RECORDS, since=0)
    leader_id, epoch = int(led.node), int(led.epoch)
    for _ in cluster.nodes:
        target_id = leader_id % len(cluster.nodes) + 1
        mark = cluster.journal.mark()
        status, out, err = transfer(cluster, target_id, "--catch-up", "10", "--json")
        assert (status, err) == (0, "")
        told = json.loads(out)
        assert told["leaderId"] == target_id
        assert told["leaderEpoch"] == epoch + 1, "nobody else was elected in between"
        cluster.journal.wait_for_acknowledged(RECORDS, since=mark, except_by=leader_id)
        leader_id, epoch = target_id, told["leaderEpoch"]
    end(cluster)


def test_a_target_that_is_slow_is_waited_for_and_one_that_is_down_costs_nothing(
    children: Children, tmp_path: Path
) -> None:
    cluster = Cluster(children, tmp_path, size=5, properties=PATIENT, throughput=500)
    led = cluster.start()
    leader_id, epoch = int(led.node), int(led.epoch)
    leader = cluster.nodes[leader_id]
    target = cluster.nodes[leader_id % len(cluster.nodes) + 1]
    cluster.journal.wait_for_acknowledged(RECORDS, since=0)

    mark = cluster.journal.mark()
    target.process.pause()
    with begin(cluster, target.node_id, "--catch-up", "30") as process:
        words = f"transferring the leadership of epoch {epoch} to {target.node_id}"
        wait_until(lambda: words in leader.log_path.read_text(), "the leader to wait", alive=[leader.process])
        target.process.resume()
        out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert out.startswith(f"Node {target.node_id} leads epoch {epoch + 1} after ")
    cluster.journal.wait_for_acknowledged(RECORDS, since=mark, except_by=leader_id)

    # A transfer that fails is followed by a rest (ADR 030), so this comes last.
    leader_id = target.node_id
    target = cluster.nodes[leader_id % len(cluster.nodes) + 1]
    target.process.kill()
    mark = cluster.journal.mark()
    status, out, err = transfer(cluster, target.node_id)
    assert (status, out) == (1, "")
    assert err.startswith(f"pykraft: transferring the leadership to node {target.node_id} was refused: ")
    assert f"node {leader_id} stays the leader" in err
    cluster.journal.wait_for_acknowledged(RECORDS, since=mark)
    mark = cluster.journal.mark()
    target.start()
    cluster.journal.wait_for_started(target.node_id, since=mark, process=target.process)
    end(cluster)
