"""Fetch answers are damaged in transit: the follower appends nothing of the damage, and no node stops.

Random bytes and a catalogue of batches that are no batches take the place of good ones in the frames to one follower,
length for length, so that everything around them stays readable (KAFKA-18723).

Source: KAFKA-18723; KIP-595 §Fetch.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from random import Random

import pytest
from crc32c import crc32c

from pykraft.host.ports import ConnectionId
from pykraft.protocol.records import encode_batch
from tests.host.cluster import Cluster, Machine

pytestmark = pytest.mark.no_cover  # it would take twice as long, and other tests reach the same

Damage = Callable[[bytes], bytes]

VALUE = b"a value that is long enough to be told from anything else in a frame"


class Tampering:
    """A quorum whose leader has appended its first records; from now on one follower gets damaged copies."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.leader = self.cluster.leader()
        self.follower, self.other = self.cluster.others(self.leader)
        self.leader.propose(b"before")
        self.cluster.run_until_committed(2)
        self.damage: Damage | None = None
        self.good = b""
        self.is_done = False
        self._send = self.cluster.send
        self.cluster.send = self._tamper  # type: ignore[method-assign]

    def repair(self, end_offset: int) -> None:
        """Damage nothing any more, and let everything below ``end_offset`` be committed and written everywhere."""
        self.damage, self.leader.is_disk_stalled = None, False
        self.cluster.run_until_committed(end_offset)
        self.cluster.settle()

    def propose(self) -> None:
        """Append one more batch; it is the one that will be damaged."""
        at_offset, epoch = self.leader.running.status.log_end_offset, self.leader.running.status.epoch
        self.good = encode_batch(
            [VALUE], base_offset=at_offset, epoch=epoch, timestamp_ms=self.cluster.now.wall_ms
        ).data
        self.leader.propose(VALUE)

    def _tamper(self, sender: Machine, connection: ConnectionId, frame: bytes) -> None:
        wire = self.cluster._wires.get(connection)
        is_for_follower = wire is not None and wire.dialer is self.follower and sender is self.leader
        if is_for_follower and self.damage is not None and self.good in frame:
            damaged = self.damage(self.good)
            assert len(damaged) == len(self.good)
            frame = frame.replace(self.good, damaged)
            self.is_done = True
        self._send(sender, connection, frame)

    def run(self, damage: Damage) -> None:
        """Append a batch, and damage it on its way until the follower has met the damage twice."""
        self.leader.is_disk_stalled = True
        self.damage = damage
        self.propose()
        for _ in range(2):
            self.cluster.run_until(lambda: self.is_done)
            self.cluster.settle()
            self.is_done = False


def changed(position: int, layout: str, value: int, *, is_sealed: bool = True) -> Damage:
    """The batch with another value in its header, and a right CRC if the CRC covers it and ``is_sealed``."""

    def damage(batch: bytes) -> bytes:
        raw = bytearray(batch)
        struct.pack_into(layout, raw, position, value)
        if is_sealed and position >= 21:
            struct.pack_into(">I", raw, 17, crc32c(raw[21:]))
        return bytes(raw)

    return damage


def flipped(position: int) -> Damage:
    """The batch with one bit changed, counted from the end if negative."""

    def damage(batch: bytes) -> bytes:
        raw = bytearray(batch)
        raw[position] ^= 1
        return bytes(raw)

    return damage


CATALOGUE: dict[str, Damage] = {
    "zeros": lambda batch: bytes(len(batch)),
    "ones": lambda batch: b"\xff" * len(batch),
    "a flipped bit of the CRC": flipped(17),
    "a flipped bit of the last value": flipped(-2),
    "no length": changed(8, ">i", 0),
    "a negative length": changed(8, ">i", -1),
    "a length below the header's": changed(8, ">i", 48),
    "a length beyond the frame": changed(8, ">i", 2**31 - 1),
    "magic 0": changed(16, ">b", 0),
    "magic 1": changed(16, ">b", 1),
    "magic 3": changed(16, ">b", 3),
    "another count under the same CRC": changed(57, ">i", 0, is_sealed=False),
    "a negative count": changed(57, ">i", -1),
    "more records than bytes": changed(57, ">i", 2**31 - 1),
    "a last offset before the first": changed(23, ">i", -1),
    "an epoch that is none": changed(12, ">i", -7),
    "an epoch before the log's": changed(12, ">i", 0),
    "a higher epoch than the leader's": changed(12, ">i", 9_999),
    "a hole before it": changed(0, ">q", 3),
    "an offset far beyond": changed(0, ">q", 2**62),
}


@pytest.mark.conformance(144, "H71")
@pytest.mark.parametrize("name", CATALOGUE)
def test_what_is_no_batch_is_not_appended_and_fetched_again(name: str) -> None:
    world = Tampering()
    end_offset, epoch = world.follower.running.status.log_end_offset, world.follower.running.status.epoch
    world.run(CATALOGUE[name])
    follower = world.follower.running
    assert (follower.status.log_end_offset, follower.status.epoch, follower.status.role) == (
        end_offset,
        epoch,
        "follower",
    )
    assert world.follower.stops == []
    world.repair(end_offset + 1)
    assert world.follower.listener.values == [b"before", VALUE]
    assert world.leader.running.status.epoch == epoch


@pytest.mark.conformance(144, "H70")
@pytest.mark.parametrize("seed", range(20))
def test_random_bytes_are_not_appended(seed: int) -> None:
    world = Tampering()
    end_offset = world.follower.running.status.log_end_offset
    random = Random(seed)
    world.run(lambda batch: random.randbytes(len(batch)))
    assert world.follower.running.status.log_end_offset == end_offset
    assert world.follower.stops == []
    world.repair(end_offset + 1)
    assert world.follower.log_bytes() == world.leader.log_bytes()


@pytest.mark.conformance(144)
@pytest.mark.parametrize("name", ["a higher epoch than the leader's", "a flipped bit of the last value", "magic 1"])
def test_batches_before_the_damage_are_kept(name: str) -> None:
    world = Tampering()
    world.cluster.cut(world.follower)
    end_offset = world.follower.running.status.log_end_offset
    world.leader.is_disk_stalled = True
    for _ in range(3):
        world.propose()
    world.damage = CATALOGUE[name]
    world.cluster.heal()
    world.cluster.run_until(lambda: world.is_done)
    world.cluster.settle()
    assert world.follower.running.status.log_end_offset == end_offset + 2
    assert any("not appended" in text for text in world.follower.reports)


@pytest.mark.conformance(144)
def test_a_batch_below_the_log_end_closes_the_connection() -> None:
    world = Tampering()
    end_offset = world.follower.running.status.log_end_offset
    world.run(changed(0, ">q", 0))
    assert world.follower.running.status.log_end_offset == end_offset
    assert any("closing the connection to peer" in text for text in world.follower.reports)
    world.repair(end_offset + 1)
    assert world.follower.log_bytes() == world.leader.log_bytes()
