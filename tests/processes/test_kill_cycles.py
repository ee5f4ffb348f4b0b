"""Nodes are killed with -9 under load: acknowledged records are never lost, unacknowledged ones never reported."""

import random
from pathlib import Path

import pytest

from lab.nodes.cluster import Cluster
from lab.nodes.logs import read_stream, wait_for_end_offset
from pykraft.local.child import Children
from pykraft.local.voters import QUICK
from tests.processes.commands import stop_under_load

CYCLES = 20
RECORDS_BETWEEN_KILLS = 500


@pytest.mark.long
@pytest.mark.processes
@pytest.mark.timeout(300)
def test_twenty_kills_lose_no_acknowledged_record(children: Children, tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed of the victims: {seed}")
    victims = random.Random(seed)
    cluster = Cluster(children, tmp_path, properties=QUICK)
    cluster.start()

    for _ in range(CYCLES):
        victim = cluster.nodes[victims.choice(sorted(cluster.nodes))]
        cluster.journal.wait_for_acknowledged(RECORDS_BETWEEN_KILLS, since=cluster.journal.mark())
        victim.process.kill()
        mark = cluster.journal.mark()
        cluster.journal.wait_for_acknowledged(RECORDS_BETWEEN_KILLS, since=mark, except_by=victim.node_id)
        victim.start()
        cluster.journal.wait_for_started(victim.node_id, since=mark, process=victim.process)

    verdict = stop_under_load(cluster)
    assert verdict.acknowledged > 2 * CYCLES * RECORDS_BETWEEN_KILLS
    assert not [node for node in cluster.nodes.values() if "Traceback" in node.log_path.read_text()]


@pytest.mark.processes
def test_what_only_a_killed_leader_had_was_never_acknowledged(children: Children, tmp_path: Path) -> None:
    cluster = Cluster(children, tmp_path, properties=QUICK)
    leader = cluster.nodes[cluster.start().node]
    followers = [node for node in cluster.nodes.values() if node is not leader]
    cluster.journal.wait_for_acknowledged(RECORDS_BETWEEN_KILLS, since=0)

    for follower in followers:
        follower.process.pause()
    replicated = max(read_stream(follower.partition).end_offset for follower in followers)
    wait_for_end_offset(leader.partition, replicated + RECORDS_BETWEEN_KILLS, leader.process)
    leader.process.kill()
    mark = cluster.journal.mark()
    for follower in followers:
        follower.process.resume()
    cluster.journal.wait_for_acknowledged(RECORDS_BETWEEN_KILLS, since=mark, except_by=leader.node_id)
    leader.start()
    cluster.journal.wait_for_started(leader.node_id, since=mark, process=leader.process)

    stop_under_load(cluster)
