"""The bytes of a snapshot become a complete file, or only a part, whatever happens.

Source: KIP-630; Kafka's ``FileRawSnapshotWriter``.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.errors import StorageError, UsageError
from pykraft.log.fs import make_directory
from pykraft.log.os_fs import OsFs
from pykraft.sim.machine.disk import Interrupted
from pykraft.snapshot import raw_writer
from pykraft.snapshot.files import checkpoint_path, part_path
from pykraft.snapshot.raw_writer import RawWriter
from tests.disks import ScriptedDisk
from tests.snapshot.snapshots import DIRECTORY, ID, disk

CHECKPOINT = checkpoint_path(DIRECTORY, ID)
PART = part_path(DIRECTORY, ID)
chunks_of_bytes = st.lists(st.binary(min_size=1, max_size=9_000), min_size=1, max_size=5)


def scripted_disk() -> ScriptedDisk:
    fs = ScriptedDisk()
    make_directory(fs, DIRECTORY)
    fs.operations.clear()
    return fs


def append_and_freeze(writer: RawWriter) -> None:
    writer.append([b"abc"])
    writer.freeze()


@pytest.mark.conformance(124, "H35")
def test_what_is_frozen_is_in_place_and_the_part_is_gone(tmp_path: Path) -> None:
    writer = RawWriter.create(OsFs(), tmp_path, ID)
    writer.append([b"ab", b"", b"c"])
    writer.append([b"def"])
    assert (writer.size_bytes, writer.is_frozen) == (6, False)
    assert [path.name for path in tmp_path.iterdir()] == [PART.name]
    writer.freeze()
    assert writer.is_frozen
    assert [path.name for path in tmp_path.iterdir()] == [CHECKPOINT.name]
    assert (tmp_path / CHECKPOINT.name).read_bytes() == b"abcdef"
    writer.abandon()
    assert (tmp_path / CHECKPOINT.name).exists()


@pytest.mark.conformance(124)
def test_what_is_abandoned_leaves_nothing(tmp_path: Path) -> None:
    writer = RawWriter.create(OsFs(), tmp_path, ID)
    writer.append([b"abc"])
    writer.abandon()
    writer.abandon()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.conformance(124)
def test_nothing_is_written_after_the_end() -> None:
    fs = disk()
    frozen = RawWriter.create(fs, DIRECTORY, ID)
    frozen.freeze()
    closed = RawWriter.create(fs, DIRECTORY, ID)
    closed.close()
    for writer, reason in ((frozen, "is frozen"), (closed, "was closed")):
        for act in (lambda w: w.append([b"a"]), RawWriter.freeze, lambda w: w.cut(0), lambda w: w.read(1, 0)):
            with pytest.raises(UsageError, match=reason):
                act(writer)


def test_a_part_that_was_closed_goes_on_where_it_ended() -> None:
    fs = disk()
    writer = RawWriter.create(fs, DIRECTORY, ID)
    writer.append([b"abcd"])
    writer.close()
    again = RawWriter(fs, PART, ID)
    assert again.size_bytes == 4
    assert again.read(9, 1) == b"bcd"
    again.cut(3)
    again.append([b"xy"])
    again.freeze()
    assert fs.read(CHECKPOINT) == b"abcxy"


def test_a_part_that_somebody_left_is_written_anew() -> None:
    fs = disk()
    writer = RawWriter.create(fs, DIRECTORY, ID)
    writer.append([b"abcd"])
    writer.close()
    again = RawWriter.create(fs, DIRECTORY, ID)
    again.append([b"x"])
    again.freeze()
    assert fs.read(CHECKPOINT) == b"x"


def test_the_snapshot_that_came_first_stays() -> None:
    fs = disk()
    first, second = RawWriter.create(fs, DIRECTORY, ID), RawWriter(fs, PART.with_name("other.part"), ID)
    first.append([b"first"])
    second.append([b"second"])
    first.freeze()
    second.freeze()
    assert second.is_frozen
    assert fs.read(CHECKPOINT) == b"first"
    assert fs.listdir(DIRECTORY) == [CHECKPOINT.name]


def test_a_snapshot_does_not_grow_beyond_its_limit() -> None:
    fs = disk()
    writer = RawWriter.create(fs, DIRECTORY, ID, size_bytes_max=5)
    writer.append([b"abcde"])
    with pytest.raises(UsageError, match="grows beyond 5 bytes"):
        writer.append([b"f"])
    with pytest.raises(UsageError, match="was closed, or failed"):
        writer.freeze()


def test_positions_have_64_bits(tmp_path: Path) -> None:
    start = 2**32 + 5
    writer = RawWriter.create(OsFs(), tmp_path, ID)
    writer._file.truncate(start)
    writer.close()
    again = RawWriter(OsFs(), tmp_path / PART.name, ID)
    again.append([b"beyond"])
    assert again.size_bytes == start + 6
    assert again.read(10, start) == b"beyond"
    again.abandon()


def test_a_part_is_synced_as_it_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raw_writer, "SYNC_INTERVAL_BYTES", 10)
    fs = scripted_disk()
    writer = RawWriter.create(fs, DIRECTORY, ID)
    for _ in range(6):
        writer.append([b"abcd"])
    operations = [operation for operation, _ in fs.operations]
    assert operations == ["create", "truncate", *["pwrite", "pwrite", "pwrite", "sync"] * 2]
    writer.freeze()
    assert [operation for operation, _ in fs.operations][len(operations) :] == ["sync", "rename", "sync_dir"]


@pytest.mark.parametrize("operation", ["pwrite", "sync", "rename", "sync_dir"])
def test_a_failed_disk_ends_the_writer(operation: str) -> None:
    fs = scripted_disk()
    writer = RawWriter.create(fs, DIRECTORY, ID)
    fs.fail = lambda found, _path: found == operation
    with pytest.raises(StorageError):
        append_and_freeze(writer)
    fs.fail = lambda _operation, _path: False
    assert not writer.is_frozen
    with pytest.raises(UsageError, match="was closed, or failed"):
        append_and_freeze(writer)
    with pytest.raises(UsageError, match="was closed, or failed"):
        writer.freeze()
    writer.abandon()
    assert fs.listdir(DIRECTORY) == ([CHECKPOINT.name] if operation == "sync_dir" else [])


@pytest.mark.conformance(125)
@given(chunks=chunks_of_bytes, seed=st.integers(0, 2**32), operations=st.integers(0, 14), loses_power=st.booleans())
def test_a_checkpoint_that_is_there_after_a_crash_is_whole(
    chunks: list[bytes], seed: int, operations: int, loses_power: bool
) -> None:
    fs = disk(seed)
    fs.interrupt_within(operations, loses_power=loses_power)
    is_frozen = False
    try:
        writer = RawWriter.create(fs, DIRECTORY, ID)
        for chunk in chunks:
            writer.append([chunk])
        writer.freeze()
        is_frozen = True
    except Interrupted:
        pass
    if loses_power:
        fs.lose_power()
    fs.drop_handles()
    if is_frozen or fs.exists(CHECKPOINT):
        assert fs.read(CHECKPOINT) == b"".join(chunks)
    assert set(fs.listdir(DIRECTORY)) <= {CHECKPOINT.name, PART.name}


@given(chunks=chunks_of_bytes, seed=st.integers(0, 2**32), operations=st.integers(0, 14))
def test_neither_does_a_disk_that_reorders_show_half_a_checkpoint(
    chunks: list[bytes], seed: int, operations: int
) -> None:
    fs = scripted_disk()
    fs.last_operation = len(fs.operations) + operations
    is_frozen = False
    try:
        writer = RawWriter.create(fs, DIRECTORY, ID)
        for chunk in chunks:
            writer.append([chunk])
        writer.freeze()
        is_frozen = True
    except Interrupted:
        pass
    fs.power_loss(Random(seed))
    if is_frozen or fs.exists(CHECKPOINT):
        assert fs.read(CHECKPOINT) == b"".join(chunks)
