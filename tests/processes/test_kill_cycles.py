"""Nodes are killed with -9 under load: acknowledged records are never lost, unacknowledged ones never reported.

A majority that lost its disks and was formatted anew cannot delete in silence what the survivor has (ADR 128).
"""

import random
import shutil
import signal
from pathlib import Path

import pytest

from lab.nodes.cluster import Cluster
from lab.nodes.logs import read_stream, wait_for_end_offset
from pykraft.local.child import Children, wait_until
from pykraft.local.voters import QUICK
from tests.processes.commands import run, stop_under_load
from tests.processes.test_damaged_directories import says

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


RECORDS = 500


@pytest.mark.processes
def test_a_majority_formatted_anew_does_not_cut_the_survivor_and_gets_its_log_back(
    children: Children, tmp_path: Path
) -> None:
    """The leader and a follower are formatted and elect the same leader in the same epoch.

    The other follower gives it up with an alarm; then its log is copied.
    """
    cluster = Cluster(children, tmp_path, properties=QUICK)
    led = cluster.nodes[cluster.start().node]
    survivor, other = (node for node in cluster.nodes.values() if node is not led)
    lost = (led, other)
    cluster.journal.wait_for_acknowledged(RECORDS, since=0)
    cluster.wait_until_caught_up()
    for node in cluster.nodes.values():
        node.process.kill()
    end_offset = read_stream(survivor.partition).end_offset
    restart = survivor.log_path.stat().st_size
    for node in lost:
        shutil.rmtree(node.partition.parent)
        words = ["storage", "format", "--config", str(node.config), "--cluster-id", cluster.cluster_id]
        formatted = run(*words)
        assert formatted.returncode == 0
        assert f"voter {survivor.node_id} may hold committed records" in formatted.stderr
    # If another one led this epoch, the survivor would refuse it for that alone.
    with other.config.open("a") as file:
        file.write("controller.quorum.election.timeout.ms=60000\n")
    mark = cluster.journal.mark()
    for node in lost:
        node.start()
    # Without a load the new quorum's log stays short: where one grew beyond the other, their batches may chance to fit.
    for node in lost:
        cluster.journal.wait_for_started(node.node_id, since=node.start_mark, process=node.process)
        node.process.signal(signal.SIGUSR1)
    cluster.journal.wait_for_leader(since=mark, alive=[node.process for node in lost])
    survivor.start()
    wait_until(lambda: says(survivor, "A majority that lost its records", since=restart), "the survivor's alarm")
    assert survivor.process.status is None, "it runs on"
    for node in cluster.nodes.values():
        node.process.kill()
    assert read_stream(survivor.partition).end_offset == end_offset

    # The first way out: the others get this log.
    for node in lost:
        shutil.rmtree(node.partition)
        shutil.copytree(survivor.partition, node.partition)
    mark = cluster.journal.mark()
    for node in cluster.nodes.values():
        node.start()
    cluster.journal.wait_for_acknowledged(RECORDS, since=mark)
    cluster.end_load()
    assert cluster.wait_until_caught_up() >= end_offset + RECORDS
    assert cluster.stop() == dict.fromkeys(cluster.nodes, 0)
    logs = {node.partition: read_stream(node.partition) for node in cluster.nodes.values()}
    assert len({log.end_offset for log in logs.values()}) == 1
