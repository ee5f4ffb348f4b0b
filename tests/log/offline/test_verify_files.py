"""Damage in small files and snapshots, and contradictions to the log, are found and named."""

import struct
from pathlib import Path

import pytest

from pykraft.log.os_fs import OsFs
from pykraft.log.small_files.epoch_checkpoint import encode_epochs
from pykraft.log.small_files.quorum_state import ElectionStore
from pykraft.log.small_files.recovery_point import RecoveryPoint
from pykraft.log.small_files.slots import SLOT_SIZE_BYTES
from pykraft.protocol.batch import crc_of, read_header
from pykraft.protocol.records import encode_batch, encode_control_batch
from pykraft.types import ControlRecord, Election, Epoch, EpochStart, NodeId, Offset, SnapshotFooter, SnapshotHeader
from tests.log.damaged_directories import epoch_of
from tests.log.data_directory import batch_size, damage, flip, segments, verified


def test_an_epoch_that_is_changed_is_damage_of_the_log_and_the_checkpoint_is_not_blamed(node: Path) -> None:
    """Without the checkpoint, recovery would believe the changed epoch; so nobody may be told to remove it."""
    epoch_of(29, 2)(node)
    assert damage(node) == [(segments(node)[1].name, "1020: epoch 1 as in leader-epoch-checkpoint / epoch 2")]
    (node / "recovery-point").unlink()
    (node / "quorum-state.check").unlink(missing_ok=True)
    assert damage(node) == [
        ("leader-epoch-checkpoint", "10: epoch 2 from offset 29 on, as in the log / epoch 2 from offset 30 on")
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0\n0\n", "epoch 1 from offset 0 on, as in the log / no further epoch"),
        ("0\n1\n2 30\n", "epoch 1 from offset 0 on, as in the log / epoch 2 from offset 30 on"),
        ("0\n2\n1 0\n2 30\n", None),
        ("0\n3\n1 0\n2 30\n3 60\n", None),
    ],
)
def test_a_checkpoint_begins_where_the_log_does_and_may_be_ahead_of_it(
    node: Path, text: str, expected: str | None
) -> None:
    (node / "leader-epoch-checkpoint").write_text(text)
    assert damage(node) == ([("leader-epoch-checkpoint", f"4: {expected}")] if expected else [])


def test_a_wrong_epoch_checkpoint_is_named(node: Path) -> None:
    path = node / "leader-epoch-checkpoint"
    entries = [EpochStart(epoch=Epoch(1), start_offset=Offset(0)), EpochStart(epoch=Epoch(2), start_offset=Offset(31))]
    path.write_bytes(encode_epochs(entries))
    segment, size = segments(node)[1], batch_size(segments(node)[1])
    position = size * (30 - int(segment.stem))
    # Nothing tells which of the two is wrong, and the batch was synced.
    assert damage(node) == [(segment.name, f"{position}: epoch 1 as in {path.name} / epoch 2")]
    point = (node / "recovery-point").read_bytes()
    (node / "recovery-point").unlink()
    (node / "quorum-state.check").unlink(missing_ok=True)
    assert damage(node) == [(path.name, "11: epoch 2 from offset 30 on, as in the log / epoch 2 from offset 31 on")]
    (node / "recovery-point").write_bytes(point)
    path.write_bytes(b"\xff garbage")
    assert [name for name, _ in damage(node)] == [path.name]
    path.write_bytes(encode_epochs(entries[:1]))
    # A node writes the checkpoint before it raises the recovery point, so below that it cannot be behind.
    assert damage(node) == [
        (segment.name, f"{position}: epoch 1 as in {path.name} / epoch 2"),
        (segments(node)[2].name, f"0: epoch 1 as in {path.name} / epoch 2"),
    ]
    RecoveryPoint.create(OsFs(), node, Offset(30)).close()
    assert damage(node) == []
    assert "is behind" in verified(node).findings.notes[0].text
    path.unlink()
    assert "is missing" in verified(node).findings.notes[0].text


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("recovery-point", b"", "an offset"),
        ("recovery-point", b"garbage" * 1000, "an offset"),
        ("quorum-state", b"", "as in quorum-state.check"),
        ("quorum-state", b'{"leaderId":1}', "as in quorum-state.check"),
        ("quorum-state.check", b"garbage", "a slot with a valid CRC"),
        ("partition.metadata", b"version: 7", "version: 0"),
    ],
)
def test_a_wrong_small_file_is_named(node: Path, name: str, content: bytes, expected: str) -> None:
    (node / name).write_bytes(content)
    found = damage(node)
    assert [one for one, _ in found] == [name]
    assert expected in found[0][1]


def test_every_flipped_bit_of_quorum_state_is_found(node: Path) -> None:
    path = node / "quorum-state"
    whole = path.read_bytes()
    for position in range(len(whole)):
        flip(path, position)
        assert [name for name, _ in damage(node)] == ["quorum-state"]
        path.write_bytes(whole)


def test_an_interrupted_write_of_quorum_state_is_sound(node: Path) -> None:
    before = (node / "quorum-state").read_bytes()
    store = ElectionStore(OsFs(), node)
    store.write(Election(epoch=Epoch(3)), voters=(NodeId(1),), kraft_version=0)
    store.close()
    (node / "quorum-state").write_bytes(before)
    assert damage(node) == []


def test_a_quorum_state_that_forgot_an_epoch_is_named(node: Path) -> None:
    (node / "quorum-state.check").unlink()
    path = node / "quorum-state"
    path.write_bytes(path.read_bytes().replace(b'"leaderEpoch":2', b'"leaderEpoch":1'))
    assert damage(node) == [("quorum-state", "0: epoch 2 or later, as in the log / epoch 1")]
    path.write_bytes(b"{")
    assert [name for name, _ in damage(node)] == ["quorum-state"]
    path.unlink()
    assert damage(node) == [("quorum-state", "0: a record of the election in epoch 2 or later / no file")]


def test_one_damaged_slot_of_two_is_no_harm(node: Path) -> None:
    point = RecoveryPoint.open(OsFs(), node)
    assert point is not None
    point.lower_to(Offset(59))
    point.raise_to(Offset(60))
    point.settle()
    point.close()
    data = (node / "recovery-point").read_bytes()
    assert len(data) > SLOT_SIZE_BYTES
    flip(node / "recovery-point", 20)
    assert damage(node) == []


def test_damaged_snapshots_are_named(kafkas: Path) -> None:
    path = kafkas / "00000000000000000107-0000000001.checkpoint"
    whole = path.read_bytes()
    flip(path, len(whole) // 2)
    assert [name for name, _ in damage(kafkas)] == [path.name]
    path.write_bytes(b"")
    assert damage(kafkas) == [(path.name, "0: a batch with a SnapshotHeader / no batch")]
    path.write_bytes(whole[: 12 + int(struct.unpack(">i", whole[8:12])[0])])
    assert "SnapshotFooter" in damage(kafkas)[0][1]
    path.write_bytes(whole)
    flip(path, 15)
    assert damage(kafkas) == [(path.name, "0: epoch 1 as in the name / epoch 0")]
    path.write_bytes(whole)
    path = path.rename(kafkas / "00000000000000000107-0000000002.checkpoint")
    assert damage(kafkas) == [(path.name, "0: epoch 2 as in the name / epoch 1")]
    ends: list[ControlRecord] = [SnapshotHeader(5), SnapshotFooter()]
    path.write_bytes(encode_control_batch(ends, base_offset=Offset(0), epoch=Epoch(2), timestamp_ms=5).data)
    assert damage(kafkas) == [(path.name, "0: epoch 1 in the name, as at offset 106 of the log / epoch 2")]


def control(base_offset: int, *records: ControlRecord) -> bytes:
    return encode_control_batch(list(records), base_offset=Offset(base_offset), epoch=Epoch(2), timestamp_ms=5).data


def data(base_offset: int, *, is_control: bool = False) -> bytes:
    """A batch of a record that is the application's, whatever its header says."""
    made = bytearray(encode_batch([b"x"], base_offset=Offset(base_offset), epoch=Epoch(2), timestamp_ms=5).data)
    if is_control:
        made[21:23] = struct.pack(">h", 0x20)
        made[17:21] = struct.pack(">I", crc_of(made, 0, read_header(made)))
    return bytes(made)


@pytest.mark.parametrize(
    ("batches", "expected"),
    [
        ([control(0, SnapshotHeader(5)), data(1), control(2, SnapshotFooter())], None),
        ([control(0, SnapshotHeader(5)), data(2), control(3, SnapshotFooter())], "offset 1 / offset 2"),
        ([data(0), control(1, SnapshotFooter())], "0: a batch with a SnapshotHeader / another one"),
        ([data(0, is_control=True), control(1, SnapshotFooter())], "0: a batch with a SnapshotHeader / another one"),
        ([control(0, SnapshotHeader(5)), data(1)], "a batch with the SnapshotFooter / another one: it was cut off"),
    ],
)
def test_a_snapshot_is_one_row_of_batches_from_its_header_to_its_footer(
    node: Path, batches: list[bytes], expected: str | None
) -> None:
    path = node / f"{60:020d}-{2:010d}.checkpoint"
    path.write_bytes(b"".join(batches))
    found = damage(node)
    assert [name for name, _ in found] == ([path.name] if expected else [])
    assert all(expected in text for _, text in found if expected)
