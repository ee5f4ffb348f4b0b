"""A quorum is sampled from outside: its leader and the progress of each node, also without a leader.

Logs of replicas are read as streams and compared.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.nodes.cluster import Cluster
from lab.nodes.logs import Stream, read_stream, require_identical
from lab.nodes.sampler import QuorumSample, Sampler
from pykraft.errors import LocalQuorumError, ProtocolError, UsageError
from pykraft.local.child import Children, wait_until
from pykraft.local.voters import HOST, QUICK, free_ports
from pykraft.protocol.records import encode_batch
from pykraft.types import Endpoint, Epoch, Offset


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


RECORDED = Path(__file__).resolve().parents[2] / "golden"


def batch(base_offset: int, count: int = 1, *, epoch: int = 1, value: bytes = b"value") -> bytes:
    return encode_batch([value] * count, base_offset=Offset(base_offset), epoch=Epoch(epoch), timestamp_ms=1).data


def segment(folder: Path, base_offset: int, *batches: bytes) -> None:
    (folder / f"{base_offset:020}.log").write_bytes(b"".join(batches))


def test_segments_are_one_stream_however_they_are_cut(tmp_path: Path) -> None:
    segment(tmp_path, 5, batch(5, 2), batch(7))
    segment(tmp_path, 8, batch(8, epoch=2)[:-1])
    stream = read_stream(tmp_path)
    assert stream == Stream(start_offset=5, end_offset=8, last_epoch=1, data=batch(5, 2) + batch(7))
    assert read_stream(tmp_path / "nothing yet") == Stream(start_offset=0, end_offset=0, last_epoch=0, data=b"")


def test_holes_lost_ends_steps_back_and_damage_are_found(tmp_path: Path) -> None:
    segment(tmp_path, 0, batch(0), batch(2))
    with pytest.raises(LocalQuorumError, match=r"offset 2 at byte .* follows 1"):
        read_stream(tmp_path)
    segment(tmp_path, 0, batch(0, epoch=2), batch(1))
    with pytest.raises(LocalQuorumError, match=r"epoch 1 at byte .* follows 2"):
        read_stream(tmp_path)
    segment(tmp_path, 0, batch(0), batch(1)[:-1])
    segment(tmp_path, 1, batch(1))
    with pytest.raises(LocalQuorumError, match="after the last whole batch"):
        read_stream(tmp_path)
    segment(tmp_path, 0, batch(0)[:-2] + b"\1\1")
    with pytest.raises(ProtocolError):
        read_stream(tmp_path)


def test_recorded_replicas_of_kafka_are_identical(tmp_path: Path) -> None:
    nodes = [RECORDED / "dynamic" / "disk" / f"n{i}" / "data" / "__cluster_metadata-0" for i in (1, 2, 3)]
    full = [node for node in nodes if (node / f"{0:020}.log").exists()]
    assert len(full) > 1
    streams = {str(node): read_stream(node) for node in full}
    require_identical(streams, end_offset=min(stream.end_offset for stream in streams.values()))


def test_a_difference_below_the_offset_is_found_and_one_above_is_not(tmp_path: Path) -> None:
    segment(tmp_path, 0, batch(0), batch(1), batch(2))
    shutil.copytree(tmp_path, tmp_path / "other")
    segment(tmp_path / "other", 0, batch(0), batch(1), batch(2, value=b"VALUE"))
    streams = {"one": read_stream(tmp_path), "other": read_stream(tmp_path / "other")}
    require_identical(streams, end_offset=2)
    with pytest.raises(LocalQuorumError, match="one and other differ at bytes"):
        require_identical(streams, end_offset=3)
    with pytest.raises(LocalQuorumError, match="ends at 3, before 4"):
        require_identical(streams, end_offset=4)
