"""A listener gets a snapshot in pieces, read off the loop, and only during the call."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from pykraft.client.state_reader import SnapshotPiece, StateReader, read_in_a_thread
from pykraft.errors import CorruptionError, DeserializeError, PykraftError, UsageError
from tests.client.states import opened_snapshot, records
from tests.snapshot.snapshots import ID, TIMESTAMP_MS


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

    def told() -> list[Any]:
        threads.append(threading.current_thread().name)
        return []

    assert asyncio.run(read_in_a_thread(told)) == []
    assert threads != [threading.current_thread().name]
    with pytest.raises(UsageError, match="no"):
        asyncio.run(read_in_a_thread(lambda: UsageError("no")))


def test_what_is_damaged_or_cannot_be_decoded_is_told_and_not_given() -> None:
    with pytest.raises(CorruptionError):
        asyncio.run(records(opened(b"x" * 3_000_000, b"y" * 3_000_000, damage_at=4_000_000)))
    with pytest.raises(DeserializeError):
        asyncio.run(records(opened(b"\xff")))
