"""Records for Fetch answers: from memory at once, from files later, and never what a truncation removed.

A leader names a diverging offset inside a batch: the follower's file and memory stay the same.

Fetch answers are damaged in transit: the follower appends nothing of the damage, and no node stops.

Random bytes and a catalogue of batches that are no batches take the place of good ones in the frames to one follower,
length for length, so that everything around them stays readable (KAFKA-18723).

Source: Kafka's ``KafkaRaftLog.read`` (isolation UNCOMMITTED); the generation is ours; ours (ADR 023); KIP-595 §Log
reconciliation; KAFKA-18723; KIP-595 §Fetch.
"""

import struct
from collections.abc import Callable, Sequence
from random import Random

import pytest
from crc32c import crc32c

from pykraft.core.effects import TruncateTo
from pykraft.errors import CorruptionError, UsageError
from pykraft.host.fetch_read import READS_MAX, FetchReads, RecentBatches, cut
from pykraft.host.ports import ConnectionId
from pykraft.log.lane import Job
from pykraft.protocol.api import ApiKey, decode_request_header, decode_response, encode_response
from pykraft.protocol.batch import BATCHES_MAX
from pykraft.protocol.records import encode_batch
from pykraft.types import Buffer, Offset
from tests.host.cluster import Cluster, Machine
from tests.host.fakes import FakeLog, FakePorts, batch, joined, offsets_of

ALL = 2**20


class Reader:
    """Reads of a log whose first batches are in files and whose last are in memory, and what came of them."""

    def __init__(self, *, in_files: int, in_memory: int) -> None:
        self.ports = FakePorts()
        self.log = FakeLog([batch(offset) for offset in range(in_files)])
        self.recent = RecentBatches(end_offset=Offset(in_files))
        self.recent.append([batch(offset) for offset in range(in_files, in_files + in_memory)])
        self.suspected: list[Offset] = []
        self.reads = FetchReads(self.ports, self.log, self.recent, self._suspect)
        self.got: list[Sequence[Buffer] | None] = []

    def _suspect(self, offset: Offset, retry: Callable[[], None]) -> None:
        self.suspected.append(offset)
        retry()

    def read(self, offset: int, end_offset: int, size_bytes_max: int = ALL) -> None:
        self.reads.read(Offset(offset), Offset(end_offset), size_bytes_max, self.got.append)

    @property
    def offsets(self) -> list[list[int] | None]:
        return [offsets_of(records) for records in self.got]


def test_nothing_asked_for_is_nothing_at_once() -> None:
    reader = Reader(in_files=3, in_memory=0)
    reader.read(3, 3)
    assert reader.got == [()]


def test_recent_batches_come_at_once_as_the_same_bytes() -> None:
    reader = Reader(in_files=2, in_memory=3)
    reader.read(3, 5)
    assert reader.offsets == [[3, 4]]
    assert reader.got[0] is not None
    kept = reader.recent.take(Offset(3), Offset(5), ALL)
    assert all(part is data for part, (_, data) in zip(reader.got[0], kept, strict=True))
    assert reader.ports.reads == []


def test_older_batches_come_from_the_files_up_to_where_memory_begins() -> None:
    reader = Reader(in_files=3, in_memory=2)
    reader.log.batches += [batch(3, epoch=9), batch(4, epoch=9)]
    reader.read(1, 5)
    assert reader.got == []
    reader.ports.finish_read()
    assert reader.offsets == [[1, 2]]


def test_a_read_under_way_is_stale_after_a_truncation_even_of_other_records() -> None:
    reader = Reader(in_files=5, in_memory=0)
    reader.read(1, 5)
    reader.recent.truncate_to(Offset(4))
    reader.reads.truncated()
    reader.ports.finish_read()
    assert reader.got == [None]
    reader.read(1, 4)
    reader.ports.finish_read()
    assert reader.offsets == [None, [1, 2, 3]]


def test_a_read_below_which_the_log_was_cut_is_stale_and_no_error() -> None:
    reader = Reader(in_files=5, in_memory=0)

    def refuse(offset: Offset, size_bytes_max: int) -> Buffer:
        raise UsageError(f"{offset} is not in this log, nor are {size_bytes_max} bytes")

    reader.read(4, 5)
    reader.recent.truncate_to(Offset(2))
    reader.reads.truncated()
    reader.log.read = refuse  # type: ignore[method-assign]
    reader.ports.finish_read()
    assert reader.got == [None]


def test_damage_is_handed_to_nobody_and_looked_into() -> None:
    reader = Reader(in_files=5, in_memory=0)

    def refuse(offset: Offset, size_bytes_max: int) -> Buffer:
        raise CorruptionError("a file", position=int(offset), expected="a sound batch", found=f"{size_bytes_max} bytes")

    reader.log.read = refuse  # type: ignore[method-assign]
    reader.read(4, 5)
    reader.ports.finish_read()
    assert (reader.got, reader.suspected) == ([None], [4])
    reader.read(3, 5)
    reader.reads.truncated()
    reader.ports.finish_read()
    assert (reader.got, reader.suspected) == ([None, None], [4])


def test_few_reads_are_under_way_at_one_time_and_the_others_follow_in_order() -> None:
    reader = Reader(in_files=20, in_memory=0)
    for offset in range(10):
        reader.read(offset, 20, 1)
    assert len(reader.ports.reads) == READS_MAX
    while reader.ports.reads:
        reader.ports.finish_read()
        assert len(reader.ports.reads) <= READS_MAX
    assert reader.offsets == [[offset] for offset in range(10)]


def test_a_read_that_nobody_wants_any_more_is_left_out() -> None:
    reader = Reader(in_files=20, in_memory=0)
    wanted = set(range(8))
    for offset in range(8):
        reader.reads.read(Offset(offset), Offset(20), 1, reader.got.append, lambda offset=offset: offset in wanted)  # type: ignore[misc]
    wanted -= {0, 4, 5, 7}
    while reader.ports.reads:
        reader.ports.finish_read()
    assert reader.offsets == [[0], [1], [2], [3], [6]], "the first four were under way"


def test_cut_keeps_whole_batches_and_does_not_copy() -> None:
    batches = [batch(0), batch(1), batch(2)]
    data = joined(batches)
    assert cut(data, Offset(3)) is data
    part = cut(data, Offset(2))
    assert bytes(part) == joined(batches[:2])
    assert isinstance(part, memoryview)
    assert part.obj is data
    assert len(cut(data, Offset(0))) == 0


@pytest.mark.parametrize("values", [[b"a"], [b"a", b"bc"]], ids=["equal", "unequal"])
def test_cut_finds_the_end_among_thousands_of_batches(values: list[bytes]) -> None:
    count = 2 * BATCHES_MAX + 5
    parts = [batch(offset, values[offset % len(values)])[1] for offset in range(count)]
    data = b"".join(parts)
    for end in (0, 1, BATCHES_MAX - 1, BATCHES_MAX, BATCHES_MAX + 1, 2 * BATCHES_MAX, count - 1, count, count + 9):
        assert cut(data, Offset(end)) == b"".join(parts[:end])
        assert cut(data + bytes(parts[0][:-1]), Offset(end)) == b"".join(parts[:end])


def test_the_batch_that_holds_an_offset_is_found_in_memory_and_in_the_files() -> None:
    reader = Reader(in_files=0, in_memory=0)
    reader.log.batches = [batch(0, b"a", b"b", b"c")]
    reader.recent = RecentBatches(end_offset=Offset(3))
    reader.recent.append([batch(3, b"d", b"e")])
    reader.reads = FetchReads(reader.ports, reader.log, reader.recent, reader._suspect)
    found: list[Offset | None] = []
    reader.reads.find_batch(Offset(4), found.append)
    assert found == [3]
    reader.reads.find_batch(Offset(2), found.append)
    reader.ports.finish_read()
    assert found == [3, 0]
    reader.reads.find_batch(Offset(1), found.append)
    reader.reads.truncated()
    reader.ports.finish_read()
    assert found == [3, 0, None]


FETCH_VERSION = 18


class Parting:
    """A leader and a follower with batches 0, 1-3 and 4-8, of which the last is committed for nobody."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.leader = self.cluster.leader()
        self.follower, other = self.cluster.others(self.leader)
        self.leader.propose(b"a", b"b", b"c")
        self.cluster.run_until_committed(4)
        self.cluster.cut(other)
        self.leader.is_disk_stalled = True
        self.leader.propose(b"d", b"e", b"f", b"g", b"h")
        self.cluster.run_until(lambda: self.follower.durable_end_offset == 9)
        self.at_offset: int | None = None
        self.cuts: list[Offset] = []
        self._submit = self.follower.submit
        self.follower.submit = self._note  # type: ignore[method-assign]
        self._send = self.cluster.send
        self.cluster.send = self._tamper  # type: ignore[method-assign]

    def part_at(self, offset: int, *, times: int = 1) -> None:
        """The next answers to the follower, so many, say that epoch 1 ends there."""
        for _ in range(times):
            self.at_offset = offset
            self.cluster.run_until(lambda: self.at_offset is None)
        self.cluster.run(10)

    def _note(self, job: Job) -> None:
        if isinstance(job, TruncateTo):
            self.cuts.append(job.end_offset)
        self._submit(job)

    def _tamper(self, sender: Machine, connection: ConnectionId, frame: bytes) -> None:
        wire = self.cluster._wires.get(connection)
        is_answer = wire is not None and wire.dialer is self.follower and sender is self.leader
        if is_answer and self.at_offset is not None and self._has_asked_to_fetch():
            correlation_id, body = decode_response(ApiKey.FETCH, FETCH_VERSION, frame)
            partition = body["responses"][0]["partitions"][0]
            partition["diverging_epoch"] = {"epoch": self.leader.running.status.epoch, "end_offset": self.at_offset}
            partition["records"] = b""
            self.at_offset = None
            frame = b"".join(bytes(part) for part in encode_response(ApiKey.FETCH, FETCH_VERSION, correlation_id, body))
        self._send(sender, connection, frame)

    def _has_asked_to_fetch(self) -> bool:
        return decode_request_header(self.follower.sent[-1][1]).api_key == ApiKey.FETCH

    def agree(self, end_offset: int) -> None:
        """All have the same log up to here in the end, in memory, in the files, and after a start."""
        self.leader.is_disk_stalled = False
        self.cluster.heal()
        self.cluster.run_until_committed(9)
        self.cluster.settle()
        assert self.follower.log_bytes() == self.leader.log_bytes()
        self.follower.crash()
        self.follower.start()
        assert self.follower.running.status.log_end_offset == end_offset


def test_a_log_that_parts_within_a_batch_is_cut_before_it() -> None:
    parting = Parting()
    parting.follower.crash()
    parting.follower.start()
    parting.part_at(7)
    assert parting.cuts == [4]
    parting.agree(9)


def test_a_log_that_parts_below_what_is_committed_is_not_cut_and_the_leader_is_given_up() -> None:
    parting = Parting()
    parting.part_at(2, times=2)  # Once may be a flipped bit.
    assert (parting.follower.stops, parting.cuts) == ([], [])
    (alarm,) = parting.follower.alarms
    asked = "it asks to truncate the log to 1, but everything below 4 is committed"
    assert f"given up as the leader of epoch 1: {asked}" in alarm
    parting.follower.crash()
    parting.follower.start()
    parting.agree(10)  # Another one was elected meanwhile.


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


@pytest.mark.no_cover
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


@pytest.mark.no_cover
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


@pytest.mark.no_cover
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


@pytest.mark.no_cover
@pytest.mark.conformance(144)
def test_a_batch_below_the_log_end_closes_the_connection() -> None:
    world = Tampering()
    end_offset = world.follower.running.status.log_end_offset
    world.run(changed(0, ">q", 0))
    assert world.follower.running.status.log_end_offset == end_offset
    assert any("closing the connection to peer" in text for text in world.follower.reports)
    world.repair(end_offset + 1)
    assert world.follower.log_bytes() == world.leader.log_bytes()
