"""A snapshot's bytes become batches however they are cut; its head is read without the rest.

Snapshots are read back, ours and Kafka's, from any position; damage is reported.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from pykraft.client.serde import bytes_serde, int_serde, text_serde
from pykraft.errors import CorruptionError, DeserializeError, ErrorCode, ProtocolError, StorageError
from pykraft.log.os_fs import OsFs
from pykraft.protocol.records import crc_of, encode_batch, encode_control_batch, read_header
from pykraft.snapshot import head
from pykraft.snapshot import head as batches_module
from pykraft.snapshot.files import BOOTSTRAP_ID, checkpoint_path, list_snapshots, retire
from pykraft.snapshot.head import (
    BatchStream,
    ContainsLog,
    PlacedBatch,
    RawReader,
    SnapshotHead,
    SnapshotReader,
    read_head,
)
from pykraft.snapshot.writer import RawWriter, SnapshotWriter
from pykraft.types import (
    ControlRecord,
    Epoch,
    KRaftVersion,
    KRaftVoters,
    LeaderChange,
    NodeId,
    Offset,
    OffsetAndEpoch,
    SnapshotFooter,
    SnapshotHeader,
)
from tests.snapshot.snapshots import DIRECTORY, ID, TIMESTAMP_MS, VOTERS, content, disk, small_batches, write


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


GOLDEN = Path(__file__).resolve().parents[1] / "golden"
KAFKA = sorted(GOLDEN.glob("*/disk/*/data/*/*-*.checkpoint"))
EACH = pytest.mark.parametrize("path", KAFKA, ids=lambda path: str(path.relative_to(GOLDEN)))
SMALL = small_batches()


def reader_of(data: bytes) -> SnapshotReader[bytes]:
    fs = disk()
    fs.open(checkpoint_path(DIRECTORY, ID), create=True).pwrite([data], 0)
    return SnapshotReader.of(fs, DIRECTORY, ID, bytes_serde)


@pytest.mark.conformance(126, "H36")
def test_what_was_written_is_read_back() -> None:
    fs = disk()
    writer = SnapshotWriter(
        fs, DIRECTORY, ID, text_serde, last_contained_log_timestamp=TIMESTAMP_MS, kraft_version=1, voters=VOTERS
    )
    writer.append(["a", "bc"])
    size_bytes = writer.freeze()
    reader = SnapshotReader.of(fs, DIRECTORY, ID, text_serde)
    assert (reader.snapshot_id, reader.size_bytes, reader.last_contained_log_offset) == (ID, size_bytes, 156)
    assert (reader.last_contained_log_epoch, reader.last_contained_log_timestamp) == (3, TIMESTAMP_MS)
    assert (reader.head.kraft_version, reader.head.voters) == (1, VOTERS)
    for _ in range(2):
        head, batch, foot = reader
        assert head.control_records == [SnapshotHeader(TIMESTAMP_MS), KRaftVersion(1), KRaftVoters(VOTERS)]
        assert not head.records
        assert not foot.records
        assert not batch.control_records
        assert (batch.records, batch.base_offset, batch.epoch) == (["a", "bc"], 3, ID.epoch)
        assert (batch.append_timestamp_ms, head.base_offset, foot.base_offset) == (TIMESTAMP_MS, 0, 5)
        assert foot.control_records == [SnapshotFooter()]
        assert sum(each.size_bytes for each in (head, batch, foot)) == size_bytes
    reader.close()
    reader.close()


@given(sizes=st.lists(st.integers(1, 700_000), max_size=8), chunk_size_bytes=st.integers(1_000, 3_000_000))
def test_records_of_any_size_come_back(sizes: list[int], chunk_size_bytes: int) -> None:
    values = [bytes([n + 1]) * size for n, size in enumerate(sizes)]
    fs = disk()
    write(fs, values)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches_module, "CHUNK_SIZE_BYTES", chunk_size_bytes)
        reader = SnapshotReader.of(fs, DIRECTORY, ID, bytes_serde)
        assert [value for batch in reader for value in batch.records] == values
    assert (reader.head.kraft_version, reader.head.voters) == (0, None)


def test_a_retired_snapshot_is_read_to_its_end() -> None:
    fs = disk()
    write(fs, [b"a", b"b"])
    reader, raw = SnapshotReader.of(fs, DIRECTORY, ID, bytes_serde), RawReader(fs, DIRECTORY, ID)
    retire(fs, DIRECTORY, ID)
    assert list_snapshots(fs, DIRECTORY) == []
    assert [list(batch.records) for batch in reader] == [[], [b"a", b"b"], []]
    assert content(raw.read(0, 2**31 - 1))[1] == [b"a", b"b"]


@pytest.mark.conformance(106)
@pytest.mark.parametrize(
    "open_it", [lambda fs: RawReader(fs, DIRECTORY, ID), lambda fs: SnapshotReader.of(fs, DIRECTORY, ID, bytes_serde)]
)
def test_what_is_not_there_is_not_read(open_it: Callable[[object], object]) -> None:
    fs = disk()
    RawWriter.create(fs, DIRECTORY, ID).append([SMALL])
    with pytest.raises(StorageError, match=checkpoint_path(DIRECTORY, ID).name):
        open_it(fs)


@pytest.mark.parametrize("size_bytes", [0, 1, 61, 82, 83, 84, len(SMALL) // 2, len(SMALL) - 1])
def test_a_snapshot_that_was_cut_off_is_damaged(size_bytes: int) -> None:
    with pytest.raises(CorruptionError) as caught:
        list(reader_of(SMALL[:size_bytes]))
    assert caught.value.path == str(checkpoint_path(DIRECTORY, ID))
    assert caught.value.position <= size_bytes


def test_a_batch_with_a_wrong_checksum_is_told_when_it_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches_module, "CHUNK_SIZE_BYTES", 2_000)
    bad = bytearray(SMALL)
    bad[-100] ^= 1
    batches = iter(reader_of(bytes(bad)))
    assert [next(batches).base_offset for _ in range(20)] == list(range(20))
    with pytest.raises(CorruptionError, match=r"expected CRC [0-9a-f]{8} of .*, found CRC"):
        list(batches)


def test_a_record_that_kraft_does_not_write_is_damage() -> None:
    head = encode_control_batch([SnapshotHeader(5)], base_offset=Offset(0), epoch=ID.epoch, timestamp_ms=5).data
    other = bytearray(encode_batch([b"a"], base_offset=Offset(1), epoch=ID.epoch, timestamp_ms=5).data)
    other[64] = 2  # The offset delta of the record.
    other[17:21] = crc_of_body(other)
    foot = encode_control_batch([SnapshotFooter()], base_offset=Offset(2), epoch=ID.epoch, timestamp_ms=5).data
    with pytest.raises(CorruptionError) as caught:
        list(reader_of(head + bytes(other) + foot))
    assert (caught.value.position, caught.value.expected) == (len(head), "a batch of KRaft's records")
    assert "record 0 of the batch has offset delta 1" in caught.value.found


def crc_of_body(batch: bytearray) -> bytes:
    return crc32c(batch[21:]).to_bytes(4, "big")


def test_a_record_that_the_application_cannot_read_is_told_with_its_place() -> None:
    fs = disk()
    write(fs, [bytes(8), bytes(7), bytes(8)])
    reader = SnapshotReader.of(fs, DIRECTORY, ID, int_serde)
    with pytest.raises(DeserializeError, match="a number takes 8 bytes, found 7") as caught:
        list(reader)
    assert (caught.value.offset, caught.value.epoch) == (2, ID.epoch)
    assert checkpoint_path(DIRECTORY, ID).name in str(caught.value)


@pytest.mark.conformance(121, "H35")
@given(position=st.integers(0, len(SMALL) - 1), size_bytes_max=st.integers(0, len(SMALL) + 10))
def test_bytes_are_read_at_any_position(position: int, size_bytes_max: int) -> None:
    fs = disk()
    fs.open(checkpoint_path(DIRECTORY, ID), create=True).pwrite([SMALL], 0)
    raw = RawReader(fs, DIRECTORY, ID)
    assert (raw.snapshot_id, raw.size_bytes) == (ID, len(SMALL))
    assert raw.read(position, size_bytes_max) == SMALL[position : position + size_bytes_max]
    raw.close()


@pytest.mark.conformance(121)
@pytest.mark.parametrize(
    ("position", "size_bytes_max", "code"),
    [
        (-1, 10, ErrorCode.POSITION_OUT_OF_RANGE),
        (len(SMALL), 10, ErrorCode.POSITION_OUT_OF_RANGE),
        (2**63 - 1, 10, ErrorCode.POSITION_OUT_OF_RANGE),
        (0, -1, ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_peer_that_asks_for_what_is_not_there_is_refused(position: int, size_bytes_max: int, code: ErrorCode) -> None:
    fs = disk()
    fs.open(checkpoint_path(DIRECTORY, ID), create=True).pwrite([SMALL], 0)
    with pytest.raises(ProtocolError) as caught:
        RawReader(fs, DIRECTORY, ID).read(position, size_bytes_max)
    assert caught.value.code is code


def test_a_peer_gets_no_more_at_once_than_fits_and_positions_have_64_bits(tmp_path: Path) -> None:
    file = OsFs().open(checkpoint_path(tmp_path, ID), create=True)
    file.truncate(2**32)
    file.pwrite([b"end"], 2**32)
    raw = RawReader(OsFs(), tmp_path, ID)
    assert raw.size_bytes == 2**32 + 3
    assert raw.read(2**32, 100) == b"end"
    assert len(raw.read(2**31, 2**31 - 1)) == 8 * 1024 * 1024
    raw.close()


@EACH
def test_kafkas_snapshots_are_read_whole(path: Path) -> None:
    directory = path.parent
    (snapshot_id,) = (each for each in list_snapshots(OsFs(), directory) if checkpoint_path(directory, each) == path)
    reader = SnapshotReader.of(OsFs(), directory, snapshot_id, bytes_serde)
    batches = list(reader)
    assert isinstance(batches[0].control_records[0], SnapshotHeader)
    assert batches[-1].control_records == [SnapshotFooter()]
    assert sum(batch.size_bytes for batch in batches) == path.stat().st_size
    assert content(path.read_bytes())[1:-1] == [batch.records for batch in batches[1:-1]]
    assert reader.head.kraft_version == (1 if "dynamic" in path.parts else 0)
    assert (reader.head.voters is None) == ("static" in path.parts)
    assert reader.last_contained_log_timestamp > 1_700_000_000_000
    reader.close()


@pytest.mark.conformance(126)
def test_our_bootstrap_snapshot_is_kafkas_but_for_the_time(tmp_path: Path) -> None:
    path = GOLDEN / "dynamic/disk/n1/data/__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"
    theirs = SnapshotReader(OsFs(), path, BOOTSTRAP_ID, bytes_serde)
    writer = SnapshotWriter(
        OsFs(),
        tmp_path,
        BOOTSTRAP_ID,
        bytes_serde,
        last_contained_log_timestamp=theirs.last_contained_log_timestamp,
        kraft_version=theirs.head.kraft_version,
        voters=theirs.head.voters,
    )
    writer.freeze()
    ours = SnapshotReader.of(OsFs(), tmp_path, BOOTSTRAP_ID, bytes_serde)
    assert [batch.control_records for batch in ours] == [batch.control_records for batch in theirs]
    assert [batch.size_bytes for batch in ours] == [batch.size_bytes for batch in theirs]
    different = [
        at
        for at, (a, b) in enumerate(zip(path.read_bytes(), (tmp_path / path.name).read_bytes(), strict=True))
        if a != b
    ]
    head_size_bytes = next(iter(ours)).size_bytes
    assert {at % head_size_bytes for at in different} <= {*range(17, 21), *range(27, 43)}, "only times and checksums"


def test_the_application_kept_bootstrap_file_of_kafka_is_readable_too() -> None:
    path = GOLDEN / "static/disk/n1/data/bootstrap.checkpoint"
    reader = SnapshotReader(OsFs(), path, BOOTSTRAP_ID, bytes_serde)
    assert sum(len(batch.records) for batch in reader) > 0
