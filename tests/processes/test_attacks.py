"""Strangers at the port of a real quorum: it keeps acknowledging, its memory is bounded, every node lives."""

import signal
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from lab.chaos.network import ProxyNetwork
from lab.nodes.cluster import Cluster, PykraftNode, Site
from pykraft.local.child import Children
from pykraft.local.voters import free_ports
from pykraft.protocol.messages import ApiKey
from tests.processes import attack, secured_fuzz
from tests.processes.rpc_edges import fuzz
from tests.processes.stranger_bar import Bar, raise_bar
from tests.processes.wire import Wire

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]

RECORDS = 200
MEMORY_MIB_MAX = 160.0
"""An idle node has 45."""
CROWD = 300
PIPELINED = 60


@pytest.fixture(scope="module")
def one_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A quorum under a small load, for all attacks on one."""
    with Children(report=lambda ends: print(ends, file=sys.stderr)) as children:
        cluster = Cluster(children, tmp_path_factory.mktemp("attacked"), throughput=500)
        cluster.start()
        yield cluster


@pytest.fixture
def cluster(one_cluster: Cluster) -> Iterator[Cluster]:
    """It still acknowledges after the attack, and no node has ended or grown."""
    works(one_cluster)
    yield one_cluster
    works(one_cluster)
    for node in one_cluster.nodes.values():
        assert node.process.status is None
        assert attack.peak_memory_mib(node.process.pid) < MEMORY_MIB_MAX


def works(cluster: Cluster) -> None:
    cluster.journal.wait_for_acknowledged(RECORDS, since=cluster.journal.mark(), timeout_s=60)


def leader_of(cluster: Cluster) -> PykraftNode:
    return cluster.nodes[cluster.journal.leader_id()]


@pytest.mark.parametrize("size_bytes", [40 * 2**20, 512 * 2**10, 60 * 2**10])
def test_votes_of_nothing_but_topics_cost_little(cluster: Cluster, size_bytes: int) -> None:
    """40 MiB held a loop for 54 s and took 3.6 GiB; 60 of 512 KiB left 48 of 2,000 acknowledgements a second."""
    vote = attack.vote_of_many_topics(size_bytes)
    with attack.crowd(leader_of(cluster).port, 1 if size_bytes > 2**20 else 60, attack.describe_quorum()) as strangers:
        for each in strangers:
            assert attack.read_frames(each, count_max=1) == 1  # who has been answered may be trusted with more
            attack.send(each, vote)
        works(cluster)
        for each in strangers:
            assert attack.read_frames(each, count_max=1) <= 1


def test_connections_that_pipeline_have_their_turns_like_others(cluster: Cluster) -> None:
    """A client that comes after 300 others which sent 60 requests each does not wait for all of theirs."""
    port = leader_of(cluster).port
    with attack.crowd(port, CROWD, attack.describe_quorum() * PIPELINED) as strangers, Wire(port) as wire:
        wire.wait_at_most(60)
        assert wire.ask(ApiKey.API_VERSIONS, 0, {})["error_code"] == 0
        works(cluster)
        assert all(attack.read_frames(each, count_max=1) == 1 for each in strangers[:10])


def test_parked_fetches_leave_the_followers_theirs(cluster: Cluster) -> None:
    """A thousand that ask to wait for 24 days, whose connections then close."""
    port = leader_of(cluster).port
    epoch, end = _end_of_log(port)
    with attack.crowd(port, 1_000, attack.fetch(offset=end, epoch=epoch, last_epoch=epoch, wait_ms=attack.INT32_MAX)):
        works(cluster)
    works(cluster)


def test_answers_that_nobody_reads_are_bounded_together(children: Children, tmp_path: Path) -> None:
    """Four connections with eight Fetches each, of a log of 24 MB: they would hold 768 MB."""
    cluster = Cluster(children, tmp_path, size=1, throughput=100, record_size_bytes=100_000)
    cluster.start()
    node = cluster.nodes[1]
    cluster.journal.wait_for_acknowledged(240, since=0, timeout_s=120)
    node.process.kill()
    mark = cluster.journal.mark()
    node.start()  # so that it has nothing of the log in memory yet, and each answer is read for itself
    cluster.journal.wait_for_leader(since=mark, alive=[node.process])
    epoch, _ = _end_of_log(node.port)
    asked = attack.fetch(offset=0, epoch=epoch, last_epoch=0, wait_ms=0)
    with attack.crowd(node.port, 4, asked * 8):
        cluster.journal.wait_for_acknowledged(200, since=cluster.journal.mark(), timeout_s=60)
        with Wire(node.port) as wire:
            wire.wait_at_most(60)
            assert wire.ask(ApiKey.API_VERSIONS, 0, {})["error_code"] == 0
        assert attack.peak_memory_mib(node.process.pid) < MEMORY_MIB_MAX
    assert node.process.status is None


@pytest.mark.long
def test_large_batches_are_committed_over_a_slow_link(children: Children, tmp_path: Path) -> None:
    """One of three voters is down, 1 MiB/s between the others: a batch takes longer than a request and an election may.

    A batch lingers up to 4 MiB here, so that it takes 4 s; a Fetch, its timeout and a request have 2 s.
    """
    ports = free_ports(6)
    fronts = {node_id: (ports[2 * node_id - 2], ports[2 * node_id - 1]) for node_id in (1, 2, 3)}
    sites = {node_id: Site(port=own, published_port=published) for node_id, (published, own) in fronts.items()}
    properties = {"controller.quorum.fetch.max.bytes": str(4 * 2**20), "controller.quorum.append.linger.ms": "5000"}
    with closing(ProxyNetwork(fronts, Random(1))) as network:
        cluster = Cluster(
            children, tmp_path, throughput=20, record_size_bytes=100_000, properties=properties, sites=sites
        )
        cluster.start()
        down = cluster.nodes[cluster.journal.leader_id() % 3 + 1]
        down.process.signal(signal.SIGKILL)
        for pair in ((1, 2), (2, 1), (1, 3), (3, 1), (2, 3), (3, 2)):
            network.wire(*pair).bandwidth = 2**20
        cluster.journal.wait_for_acknowledged(40, since=cluster.journal.mark(), timeout_s=120)
        assert [node.process.status for node in cluster.nodes.values() if node is not down] == [None, None]


def _end_of_log(port: int) -> tuple[int, int]:
    with Wire(port) as wire:
        body = {"topics": [{"topic_name": "__raft_performance_test", "partitions": [{"partition_index": 0}]}]}
        answer = wire.ask(ApiKey.DESCRIBE_QUORUM, 0, body)
    [found] = answer["topics"][0]["partitions"]
    return found["leader_epoch"], found["high_watermark"]


EDGE_SECONDS = 6.0


@pytest.mark.parametrize("voters", [1, 3])
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_node_lives_with_every_edge_of_every_request(tmp_path: Path, loop: str, voters: int) -> None:
    assert fuzz(tmp_path, loop=loop, voters=voters, seconds=EDGE_SECONDS, seed=1) > 0


def test_a_secured_quorum_keeps_its_leader_whatever_it_is_told(children: Children, tmp_path: Path) -> None:
    """`python -m tests.processes.secured_fuzz` does the same for ten minutes, and with Kafka's timeouts."""
    patient = {"controller.quorum.fetch.timeout.ms": "10000"}
    assert secured_fuzz.fuzz(children, tmp_path, seconds=EDGE_SECONDS, seed=1, **patient)


BAR_SECONDS = 10.0


@pytest.mark.parametrize("is_dynamic", [False, True])
def test_a_quorum_lives_with_a_stranger_who_knows_its_ids(tmp_path: Path, *, is_dynamic: bool) -> None:
    bar = raise_bar(tmp_path, is_dynamic=is_dynamic, seconds=BAR_SECONDS, rate=50)
    assert bar.sent > BAR_SECONDS * 10, "it hardly sent anything"
    assert not bar.problems(is_rate_judged=False), bar


def test_each_limit_is_judged() -> None:
    bar = Bar(
        kind="static",
        quiet_per_s=100,
        attacked_per_s={"VOTE": 49, "FETCH": 51},
        epochs=1_001,
        leaders=9,
        memory_mib=151,
        sent=1,
        ended=(2,),
    )
    assert len(bar.problems(is_rate_judged=False)) == 3
    assert len(bar.problems(is_rate_judged=True)) == 4
