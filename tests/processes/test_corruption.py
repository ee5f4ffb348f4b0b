"""Flipped bits in the log of a real node are found, reported and fetched again under load; no record is lost."""

from pathlib import Path

import pytest

from lab.nodes.cluster import Cluster, PykraftNode
from lab.nodes.logs import wait_for_end_offset
from pykraft.local.child import Children, wait_until
from pykraft.local.voters import QUICK

SCRUB = {"pykraft.log.scrub.bytes.per.second": "8388608", "pykraft.log.scrub.interval.ms": "500"}
RECORDS_BETWEEN = 1_000
DAMAGED, MENDED = "DAMAGED LOG", "out of quarantine"
POSITION = 5_000
"""In the log of every node, and far below what it has synced, once it acknowledged a thousand records."""


def flip(node: PykraftNode) -> None:
    """One bit of an old record turns."""
    path = node.partition / f"{0:020d}.log"
    with path.open("r+b") as file:
        file.seek(POSITION)
        (byte,) = file.read(1)
        file.seek(POSITION)
        file.write(bytes([byte ^ 0x10]))


def logged(node: PykraftNode, text: str) -> list[str]:
    return [line for line in node.log_path.read_text().splitlines() if text in line]


def wait_until_mended(node: PykraftNode, *, times: int = 1) -> None:
    """Until the node has said so this often; it has no note of it any more."""
    alive = [node.process]
    wait_until(lambda: len(logged(node, MENDED)) == times, f"node {node.node_id} to be whole again", alive=alive)
    wait_until(lambda: not (node.partition / "quarantine").exists(), "the note to be removed", alive=alive)
    assert len(logged(node, DAMAGED)) >= times
    assert "00000000000000000000.log at position" in logged(node, DAMAGED)[-1]


def check(cluster: Cluster) -> None:
    assert cluster.finish().acknowledged >= RECORDS_BETWEEN
    assert not [node for node in cluster.nodes.values() if "Traceback" in node.log_path.read_text()]


@pytest.mark.processes
def test_a_follower_mends_its_log_when_it_starts_and_while_it_runs(children: Children, tmp_path: Path) -> None:
    cluster = Cluster(children, tmp_path, properties={**QUICK, **SCRUB})
    leader_id = cluster.start().node
    follower = next(node for node in cluster.nodes.values() if node.node_id != leader_id)
    cluster.journal.wait_for_acknowledged(RECORDS_BETWEEN, since=0)
    wait_for_end_offset(follower.partition, RECORDS_BETWEEN, follower.process)

    follower.process.kill()
    flip(follower)
    follower.start()
    wait_until_mended(follower)

    cluster.journal.wait_for_acknowledged(RECORDS_BETWEEN, since=cluster.journal.mark())
    flip(follower)
    wait_until_mended(follower, times=2)
    check(cluster)


@pytest.mark.processes
def test_a_node_on_kafkas_directory_mends_what_is_damaged_before_whole_batches(
    children: Children, tmp_path: Path
) -> None:
    """Nothing there tells how far the log was synced; the node cut it, and voted without the records behind."""
    cluster = Cluster(children, tmp_path, properties=QUICK)
    leader_id = cluster.start().node
    follower = next(node for node in cluster.nodes.values() if node.node_id != leader_id)
    cluster.journal.wait_for_acknowledged(RECORDS_BETWEEN, since=0)
    wait_for_end_offset(follower.partition, RECORDS_BETWEEN, follower.process)

    follower.process.kill()
    for name in ("recovery-point", "quorum-state.check"):
        (follower.partition / name).unlink()
    (follower.partition.parent / "replica-proof").unlink(missing_ok=True)
    flip(follower)
    follower.start()
    wait_until_mended(follower)
    assert logged(follower, "no recovery-point file")
    assert not logged(follower, "RECORDS MAY BE LOST")
    check(cluster)


@pytest.mark.processes
def test_a_damaged_leader_resigns_and_follows(children: Children, tmp_path: Path) -> None:
    cluster = Cluster(children, tmp_path, properties={**QUICK, **SCRUB})
    leader = cluster.nodes[cluster.start().node]
    cluster.journal.wait_for_acknowledged(RECORDS_BETWEEN, since=0)

    mark = cluster.journal.mark()
    flip(leader)
    cluster.journal.wait_for_acknowledged(RECORDS_BETWEEN, since=mark, except_by=leader.node_id)
    wait_until_mended(leader)
    assert logged(leader, "resigned in epoch")
    check(cluster)


@pytest.mark.processes
def test_a_quorum_of_one_stays_up_and_says_what_is_damaged(children: Children, tmp_path: Path) -> None:
    cluster = Cluster(children, tmp_path, size=1, properties=SCRUB)
    (node,) = cluster.nodes.values()
    cluster.start()
    cluster.journal.wait_for_acknowledged(RECORDS_BETWEEN, since=0)
    flip(node)
    wait_until(lambda: bool(logged(node, "resigned in epoch")), "the node to resign", alive=[node.process])
    wait_until((node.partition / "quarantine").exists, "the damage to be noted", alive=[node.process])
    assert cluster.stop() == {1: 0}
    node.start()
    cluster.journal.wait_for_started(1, since=node.start_mark, process=node.process)
    assert len(logged(node, DAMAGED)) == 2
    assert cluster.stop() == {1: 0}
