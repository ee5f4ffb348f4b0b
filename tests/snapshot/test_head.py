"""A snapshot's bytes become batches however they are cut; its head is read without the rest.

Source: KIP-630 §Snapshot Format, KIP-853; Kafka's ``RecordsSnapshotReader`` and ``RecordsIterator``.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.client.serde import bytes_serde
from pykraft.errors import CorruptionError, StorageError
from pykraft.protocol.records import crc_of, encode_batch, encode_control_batch, read_header
from pykraft.snapshot import head
from pykraft.snapshot.files import BOOTSTRAP_ID, checkpoint_path
from pykraft.snapshot.head import BatchStream, ContainsLog, PlacedBatch, SnapshotHead, read_head
from pykraft.snapshot.writer import SnapshotWriter
from pykraft.types import (
    ControlRecord,
    Epoch,
    LeaderChange,
    NodeId,
    Offset,
    OffsetAndEpoch,
    SnapshotFooter,
    SnapshotHeader,
)
from tests.snapshot.snapshots import DIRECTORY, ID, TIMESTAMP_MS, VOTERS, disk, small_batches, write


def test_the_head_says_what_the_snapshot_was_begun_with() -> None:
    fs = disk()
    data = write(fs, [b"a"])
    assert read_head(fs, DIRECTORY, ID) == (len(data), SnapshotHead(last_contained_log_timestamp=TIMESTAMP_MS))
    fs = disk()
    writer = SnapshotWriter(
        fs, DIRECTORY, ID, bytes_serde, last_contained_log_timestamp=7, kraft_version=1, voters=VOTERS
    )
    size_bytes = writer.freeze()
    head = SnapshotHead(last_contained_log_timestamp=7, kraft_version=1, voters=VOTERS)
    assert read_head(fs, DIRECTORY, ID) == (size_bytes, head)


def test_damage_further_on_does_not_matter_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head, "CHUNK_SIZE_BYTES", 300)
    fs = disk()
    fs.open(checkpoint_path(DIRECTORY, ID), create=True).pwrite([small_batches()[:5_000]], 0)
    assert read_head(fs, DIRECTORY, ID)[1].last_contained_log_timestamp == 5


def test_a_head_that_is_damaged_or_missing_is_told() -> None:
    fs = disk()
    with pytest.raises(StorageError, match=checkpoint_path(DIRECTORY, ID).name):
        read_head(fs, DIRECTORY, ID)
    fs.open(checkpoint_path(DIRECTORY, ID), create=True).pwrite([small_batches()[:50]], 0)
    with pytest.raises(CorruptionError, match="the first 50 bytes"):
        read_head(fs, DIRECTORY, ID)


def test_the_last_contained_record_is_the_one_before_the_offset() -> None:
    snapshot = ContainsLog(OffsetAndEpoch(Offset(7), Epoch(3)))
    assert (snapshot.last_contained_log_offset, snapshot.last_contained_log_epoch) == (6, 3)


def test_the_bootstrap_snapshot_contains_nothing() -> None:
    assert ContainsLog(BOOTSTRAP_ID).last_contained_log_offset == -1


PATH = Path("x.checkpoint")
HEADER, FOOTER = SnapshotHeader(5), SnapshotFooter()


def control(offset: int, *records: ControlRecord, epoch: int = 3) -> bytes:
    return encode_control_batch(records, base_offset=Offset(offset), epoch=Epoch(epoch), timestamp_ms=5).data


def data(offset: int, *values: bytes, epoch: int = 3) -> bytes:
    return encode_batch(values, base_offset=Offset(offset), epoch=Epoch(epoch), timestamp_ms=5).data


SOUND = [control(0, HEADER), data(1, b"a", b"bc"), data(3, b"d" * 300), control(4, FOOTER)]
HEAD = SOUND[0]
AT = len(HEAD)


def flipped(batch: bytes, position: int) -> bytes:
    return batch[:position] + bytes([batch[position] ^ 1]) + batch[position + 1 :]


def wrong_control_type() -> bytes:
    batch = bytearray(control(1, FOOTER))
    batch[69] = 9  # The type in the key of the first record.
    header = read_header(batch)
    batch[17:21] = crc_of(batch, 0, header).to_bytes(4, "big")
    return bytes(batch)


def feed(*chunks: bytes) -> list[PlacedBatch]:
    stream = BatchStream(PATH, Epoch(3))
    found = [batch for chunk in chunks for batch in stream.feed(chunk)]
    stream.finish()
    return found


@given(cuts=st.lists(st.integers(0, sum(map(len, SOUND)))))
def test_the_same_batches_are_found_however_the_bytes_are_cut(cuts: list[int]) -> None:
    whole = b"".join(SOUND)
    places = sorted({0, *cuts, len(whole)})
    found = feed(*(whole[start:end] for start, end in pairwise(places)))
    assert [batch.data for batch in found] == SOUND
    assert [batch.position for batch in found] == [sum(map(len, SOUND[:n])) for n in range(4)]
    assert [list(batch.controls) for batch in found] == [[HEADER], [], [], [FOOTER]]


def test_other_control_records_may_stand_in_between() -> None:
    change = LeaderChange(leader_id=NodeId(1), voters=(NodeId(1),), granting_voters=())
    assert len(feed(HEAD, control(1, change), control(2, FOOTER))) == 3
    assert len(feed(control(0, HEADER, FOOTER))) == 1


@pytest.mark.parametrize(
    ("chunks", "position", "expected", "found"),
    [
        ([], 0, "a batch with the SnapshotFooter", "the end of the file"),
        ([HEAD], AT, "a batch with the SnapshotFooter", "the end of the file"),
        ([HEAD, SOUND[1][:-1]], AT, "a whole batch", f"the first {len(SOUND[1]) - 1} bytes of one"),
        ([HEAD[:10]], 0, "a whole batch", "the first 10 bytes of one"),
        ([data(0, b"a")], 0, "a batch with the SnapshotHeader", "another one"),
        ([control(0, FOOTER)], 0, "a batch with the SnapshotHeader", "another one"),
        ([HEAD, data(2, b"a")], AT, "offset 1", "offset 2"),
        ([HEAD, data(0, b"a")], AT, "offset 1", "offset 0"),
        ([HEAD, data(1, b"a", epoch=4)], AT, "epoch 3 as in the snapshot's id", "epoch 4"),
        ([HEAD, control(1, FOOTER), data(2, b"a")], AT + 75, "nothing after the SnapshotFooter", "a batch of 69 bytes"),
        (
            [HEAD, bytes(70)],
            AT,
            "a batch header",
            "one that says that 0 bytes follow its length, but its header alone has 49",
        ),
        ([HEAD, flipped(SOUND[1], 16)], AT, "a batch header", "one that has magic 3; only 2 is read"),
        ([HEAD, flipped(SOUND[1], 65)], AT, "CRC ", "CRC "),
        ([HEAD, wrong_control_type()], AT, "a batch of control records", "type 9 is not one of Raft's"),
    ],
)
def test_what_cannot_be_a_snapshot_is_told_by_its_place(
    chunks: Sequence[bytes], position: int, expected: str, found: str
) -> None:
    for cut in (list(chunks), [b"".join(chunks)]):
        with pytest.raises(CorruptionError) as caught:
            feed(*cut)
        assert caught.value.position == position
        assert caught.value.expected.startswith(expected)
        assert found in caught.value.found
        assert caught.value.path == str(PATH)


@given(position=st.integers(0, sum(map(len, SOUND)) - 1), bit=st.integers(0, 7))
def test_every_flipped_bit_is_seen(position: int, bit: int) -> None:
    whole = bytearray(b"".join(SOUND))
    whole[position] ^= 1 << bit
    with pytest.raises(CorruptionError):
        feed(bytes(whole))


def test_a_batch_that_claims_to_be_huge_is_refused_before_it_is_gathered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head, "BATCH_SIZE_BYTES_MAX", 300)
    stream = BatchStream(PATH, Epoch(3))
    stream.feed(HEAD)
    with pytest.raises(CorruptionError, match="a batch of at most 300 bytes, found 3"):
        stream.feed(SOUND[2].replace(SOUND[2][:8], bytes(7) + b"\1", 1)[:61])


def test_the_stream_goes_on_from_its_last_whole_batch() -> None:
    stream = BatchStream(PATH, Epoch(3))
    assert len(stream.feed(HEAD + SOUND[1] + SOUND[2][:20])) == 2
    stream.forget_rest()
    assert stream.position == AT + len(SOUND[1])
    assert [batch.data for batch in stream.feed(SOUND[2] + SOUND[3])] == SOUND[2:]
    stream.finish()
