"""A quorum is sampled from outside: its leader and the progress of each node, also without a leader."""

from collections.abc import Callable
from pathlib import Path

import pytest

from lab.nodes.cluster import Cluster
from lab.nodes.sampler import QuorumSample, Sampler
from pykraft.errors import UsageError
from pykraft.local.child import Children, wait_until
from pykraft.local.voters import HOST, QUICK, free_ports
from pykraft.types import Endpoint


def nobody() -> list[Endpoint]:
    [port] = free_ports(1)
    return [Endpoint(HOST, port)]


def seen(sampler: Sampler, is_seen: Callable[[QuorumSample], bool]) -> QuorumSample:
    return wait_until(lambda: next(filter(is_seen, sampler.samples()), None), "such a sample")


def test_a_look_without_an_answer_is_one_without_a_leader() -> None:
    with Sampler(nobody(), interval_s=0.001) as sampler:
        wait_until(lambda: len(sampler.samples()) >= 3, "three samples")
    samples = sampler.stop()
    assert {(each.leader_id, each.epoch, each.high_watermark, len(each.replicas)) for each in samples} == {
        (None, None, None, 0)
    }
    assert [each.wall_ms for each in samples] == sorted(each.wall_ms for each in samples)


def test_what_is_kept_is_bounded_and_covers_all_of_the_time() -> None:
    with Sampler(nobody(), interval_s=0.001, samples_max=8) as sampler:
        first = seen(sampler, lambda _: True)
        began_ms = first.wall_ms
        seen(sampler, lambda each: each.wall_ms > began_ms + 50)
        for _ in range(100):
            samples = sampler.samples()
            assert len(samples) <= 8
            assert samples[0] == first


def test_a_quorum_without_nodes_is_refused() -> None:
    with pytest.raises(UsageError, match="the bootstrap list is empty"):
        Sampler([])


@pytest.mark.processes
def test_a_killed_leader_is_seen_as_a_gap_and_its_end_as_another_leader(children: Children, tmp_path: Path) -> None:
    cluster = Cluster(children, tmp_path, throughput=500, properties=QUICK)
    led = cluster.start()
    with Sampler([Endpoint(HOST, node.port) for node in cluster.nodes.values()], interval_s=0.02) as sampler:
        before = seen(sampler, lambda each: each.leader_id == led.node and min_end(each) > 100)
        assert before.epoch == led.epoch
        assert set(before.replicas) == {1, 2, 3}
        assert before.replicas[led.node].lag == 0
        # A killed leader alone would be replaced before the next look.
        other = next(node for node_id, node in cluster.nodes.items() if node_id != led.node)
        for node in (other, cluster.nodes[led.node]):
            node.process.kill()
        seen(sampler, lambda each: each.leader_id is None)
        other.start()
        after = seen(sampler, lambda each: each.leader_id not in (None, led.node) and (each.high_watermark or 0) > 0)
    cluster.stop()
    assert after.epoch is not None
    assert after.epoch > led.epoch
    assert after.replicas[led.node].lag > 0 or after.replicas[led.node].log_end_offset == -1


def min_end(sample: QuorumSample) -> int:
    return min(replica.log_end_offset for replica in sample.replicas.values())
