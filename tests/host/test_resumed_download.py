"""An interrupted download resumes where it stopped, as far as the bytes surely belong to the same file.

Source: KIP-630 §FetchSnapshot; resuming is ours (ADR 011).
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from pykraft.protocol.api import ApiKey, decode_request_body, decode_request_header
from pykraft.types import OffsetAndEpoch
from tests.host.cluster import Cluster, Machine
from tests.host.snapshots.test_store import committed, snapshots_of, take, values_in

SLICE_SIZE_BYTES = 200_000
STATE = [b"%d" % number * 600_000 for number in range(6)]
"""Records of which one takes a batch of its own."""


def asked_positions(machine: Machine) -> list[int]:
    """Where the FetchSnapshot requests of this machine began, in their order."""
    positions = []
    for _, frame in machine.sent:
        header = decode_request_header(frame) if frame[:2] == b"\0\x3b" else None
        if header is not None and header.api_key == ApiKey.FETCH_SNAPSHOT:
            [partition] = decode_request_body(header, frame)["topics"][0]["partitions"]
            positions.append(partition["position"])
    return positions


class HalfWay:
    """A machine that has fetched half of the leader's snapshot."""

    def __init__(self) -> None:
        self.cluster = cluster = Cluster(fetch_snapshot_size_bytes_max=SLICE_SIZE_BYTES)
        self.leader = cluster.leader()
        self.away = cluster.others(self.leader)[0]
        self.away.crash()
        self.snapshot_id: OffsetAndEpoch = committed(cluster, self.leader, 4)
        take(cluster, self.leader, self.snapshot_id, *STATE)
        self.away.wipe()
        self.away.format()
        self.away.start()
        cluster.run_until(lambda: asked_positions(self.away)[-1:] > [1_800_000])
        self.epoch = self.away.running.status.epoch
        self.half = asked_positions(self.away)[-1]
        self.away.sent.clear()

    def first_position_after(self) -> int:
        """Let the download end; where it went on."""
        self.cluster.run_until(lambda: self.away.running.status.log_start_offset == self.snapshot_id.offset)
        self.cluster.settle()
        assert snapshots_of(self.away) == [self.snapshot_id]
        assert values_in(self.away, self.snapshot_id) == STATE
        positions = asked_positions(self.away)
        assert positions == sorted(positions)
        return positions[0]


def lose_connections(half_way: HalfWay) -> None:
    half_way.cluster.break_all(half_way.away)


def lose_the_network(half_way: HalfWay) -> None:
    """For so long that the replica looks for another leader; and finds the same one of the same epoch."""
    half_way.cluster.cut(half_way.away)
    half_way.cluster.run_until(lambda: half_way.away.running.status.role != "follower")
    half_way.cluster.heal()


def be_killed(half_way: HalfWay) -> None:
    half_way.away.crash()
    half_way.away.start()


@pytest.mark.conformance(122)
@pytest.mark.parametrize("interrupt", [lose_connections, lose_the_network, be_killed])
def test_it_goes_on_with_the_same_leader(interrupt: Callable[[HalfWay], None]) -> None:
    half_way = HalfWay()
    interrupt(half_way)
    first = half_way.first_position_after()
    assert half_way.away.running.status.epoch == half_way.epoch
    assert half_way.half - 700_000 < first <= half_way.half + SLICE_SIZE_BYTES


@pytest.mark.conformance(122)
def test_after_a_loss_of_power_it_goes_on_with_what_is_sound() -> None:
    for seed in range(5):
        half_way = HalfWay()
        half_way.away.fs.power_loss(Random(seed))
        half_way.away.crash()
        half_way.away.start()
        assert half_way.first_position_after() <= half_way.half


@pytest.mark.conformance(122)
def test_another_leader_has_another_file() -> None:
    half_way = HalfWay()
    other = next(each for each in half_way.cluster.others(half_way.leader) if each is not half_way.away)
    take(half_way.cluster, other, half_way.snapshot_id, *STATE)
    half_way.leader.crash()
    assert half_way.first_position_after() == 0
    assert half_way.away.running.status.epoch > half_way.epoch
