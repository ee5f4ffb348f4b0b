"""Batches are decoded only when they are accessed; a snapshot comes in pieces, read off the loop."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from pykraft.client.reader import Batch, Reader, SnapshotPiece, StateReader, read_in_a_thread
from pykraft.client.serde import int_serde, text_serde
from pykraft.errors import CorruptionError, DeserializeError, PykraftError, ReadError, UsageError
from pykraft.host.delivery import CommittedBatch
from pykraft.protocol.records import encode_batch, encode_control_batch
from pykraft.snapshot.files import checkpoint_path
from pykraft.types import Epoch, LeaderChange, NodeId, Offset
from tests.client.states import opened_snapshot, records
from tests.disks import ScriptedDisk
from tests.snapshot.snapshots import DIRECTORY, ID, TIMESTAMP_MS

CHANGE = LeaderChange(leader_id=NodeId(1), voters=(NodeId(1),), granting_voters=(NodeId(1),))


def committed(*values: bytes, base_offset: int = 5) -> CommittedBatch:
    data = encode_batch(values, base_offset=Offset(base_offset), epoch=Epoch(3), timestamp_ms=77).data
    return CommittedBatch(
        base_offset=Offset(base_offset),
        end_offset=Offset(base_offset + len(values)),
        epoch=Epoch(3),
        timestamp_ms=77,
        is_control=False,
        data=data,
    )


def control() -> CommittedBatch:
    data = encode_control_batch([CHANGE], base_offset=Offset(4), epoch=Epoch(3), timestamp_ms=77).data
    return CommittedBatch(
        base_offset=Offset(4), end_offset=Offset(5), epoch=Epoch(3), timestamp_ms=77, is_control=True, data=data
    )


class Counting:
    """Text, and how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    def serialize(self, record: str) -> bytes:
        return record.encode()

    def deserialize(self, data: bytes) -> str:
        self.asked += 1
        return data.decode()


def test_a_batch_tells_where_it_stands_and_what_is_in_it() -> None:
    given = committed(b"a", b"b")
    batch = Batch(given, text_serde)
    assert (batch.base_offset, batch.last_offset, batch.epoch) == (5, 6, 3)
    assert (batch.append_timestamp_ms, batch.size_bytes) == (77, len(given.data))
    assert list(batch.records) == ["a", "b"]
    assert list(batch.control_records) == []
    assert repr(batch) == f"<Batch 5-6 of epoch 3, {len(given.data)} bytes>"


def test_records_are_decoded_at_the_first_look_and_once() -> None:
    serde = Counting()
    batch = Batch(committed(b"a", b"b"), serde)
    assert serde.asked == 0
    assert batch.records is batch.records
    assert serde.asked == 2


def test_a_control_batch_holds_no_records() -> None:
    batch = Batch(control(), text_serde)
    assert list(batch.records) == []
    assert list(batch.control_records) == [CHANGE]


def test_records_before_the_wanted_offset_are_left_out() -> None:
    batch = Batch(committed(b"a", b"b", b"c"), text_serde, Offset(6))
    assert (batch.base_offset, batch.last_offset, list(batch.records)) == (6, 7, ["b", "c"])


def test_a_record_that_cannot_be_read_is_told_with_its_offset() -> None:
    good = int_serde.serialize(1)
    batch = Batch(committed(good, good, b"odd", good), int_serde)
    with pytest.raises(DeserializeError, match=r"offset 7 \(epoch 3\).*ValueError: a number takes 8 bytes") as raised:
        list(batch.records)
    assert (raised.value.offset, raised.value.epoch) == (7, 3)
    assert isinstance(raised.value.__cause__, ValueError)


def test_a_reader_gives_its_batches_as_often_as_they_are_wanted() -> None:
    reader = Reader([Batch(control(), text_serde), Batch(committed(b"a", b"b"), text_serde)])
    assert (reader.base_offset, reader.last_offset) == (4, 6)
    assert [batch.base_offset for batch in reader] == [batch.base_offset for batch in reader] == [4, 5]


def test_a_closed_reader_says_so() -> None:
    reader = Reader([Batch(committed(b"a"), text_serde), Batch(committed(b"b", base_offset=6), text_serde)])
    batches = iter(reader)
    next(batches)
    reader.close()
    reader.close()
    for read in (lambda: next(batches), lambda: list(reader), lambda: reader.last_offset):
        with pytest.raises(UsageError, match="only during the call"):
            read()


class Reading:
    """Reads at once, or not before it is let."""

    def __init__(self) -> None:
        self.reads = 0
        self.may_read = asyncio.Event()
        self.may_read.set()
        self.is_asked = asyncio.Event()

    async def __call__(self, read: Callable[[], SnapshotPiece[str] | PykraftError]) -> SnapshotPiece[str]:
        self.is_asked.set()
        await self.may_read.wait()
        self.reads += 1
        piece = read()
        if isinstance(piece, PykraftError):
            raise piece
        return piece


def opened(*values: bytes, damage_at: int | None = None, reading: Reading | None = None) -> StateReader[str]:
    return StateReader(reading or Reading(), opened_snapshot(*values, damage_at=damage_at))


def test_all_of_it_is_given_once_or_more_often() -> None:
    reader = opened(b"one", b"two")
    assert asyncio.run(records(reader)) == ["one", "two"]
    assert asyncio.run(records(reader)) == ["one", "two"]
    assert (reader.snapshot_id, reader.last_contained_log_timestamp) == (ID, TIMESTAMP_MS)
    assert (reader.last_contained_log_offset, reader.last_contained_log_epoch) == (ID.offset - 1, ID.epoch)
    assert reader.size_bytes > 0


def test_a_piece_is_about_a_mebibyte() -> None:
    reading = Reading()
    reader = opened(*(b"%d" % number * 300_000 for number in range(10)), reading=reading)
    assert len(asyncio.run(records(reader))) == 10
    assert 3 <= reading.reads <= 6


def test_it_is_not_read_on_the_loop() -> None:
    with pytest.raises(UsageError, match="async for"):
        list(opened(b"one"))


def test_it_is_closed_when_the_call_is_done() -> None:
    reader = opened(b"one")
    reader.close()
    reader.close()
    with pytest.raises(UsageError, match="the reader is closed"):
        asyncio.run(records(reader))


async def test_a_piece_that_is_being_read_is_read_to_its_end() -> None:
    reading = Reading()
    reader = opened(b"one", reading=reading)
    reading.may_read.clear()
    task = asyncio.create_task(records(reader))
    await reading.is_asked.wait()
    reader.close()
    reading.may_read.set()
    assert await task == ["one"]


def test_who_has_no_node_reads_in_a_thread() -> None:
    threads: list[str] = []

    def values() -> list[Any]:
        threads.append(threading.current_thread().name)
        return []

    assert asyncio.run(read_in_a_thread(values)) == []
    assert threads != [threading.current_thread().name]
    with pytest.raises(UsageError, match="no"):
        asyncio.run(read_in_a_thread(lambda: UsageError("no")))


def test_what_is_damaged_or_cannot_be_decoded_is_told_and_not_given() -> None:
    with pytest.raises(CorruptionError):
        asyncio.run(records(opened(b"x" * 3_000_000, b"y" * 3_000_000, damage_at=4_000_000)))
    with pytest.raises(DeserializeError):
        asyncio.run(records(opened(b"\xff")))


def test_what_the_disk_cannot_read_now_is_read_again() -> None:
    disk = ScriptedDisk()
    reader = opened_snapshot(b"x" * 3_000_000, b"y" * 3_000_000, b"z", disk=disk)
    name = checkpoint_path(DIRECTORY, ID).name
    disk.lost[name] = range(4_000_000, 4_000_001)

    async def patient(read: Callable[[], SnapshotPiece[str] | PykraftError]) -> SnapshotPiece[str]:
        try:
            found = read()
        except ReadError:
            failures.append(disk.lost.pop(name))
            found = read()
        assert not isinstance(found, PykraftError)
        return found

    failures: list[range] = []
    assert [value[:1] for value in asyncio.run(records(StateReader(patient, reader)))] == ["x", "y", "z"]
    assert len(failures) == 1
