"""Whole batches: Kafka's bytes both ways, records of any client with every codec, any damage, and the quick check."""

import datetime
import io
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c
from hypothesis import example, given
from hypothesis import strategies as st
from kio.records import schema as kio
from kio.records.writers import write_batch
from kio.static.primitive import TZAwareMicros, i8, i16, i32, i64

from pykraft.errors import ErrorCode, ProtocolError
from pykraft.host.ports import run_steps
from pykraft.protocol import records
from pykraft.protocol.batch import seal_batch
from pykraft.protocol.control import TABLES, read_control_body
from pykraft.protocol.primitives import encode_varint
from pykraft.protocol.records import (
    HEADER_SIZE_BYTES,
    BatchHeader,
    Compression,
    EncodedBatch,
    Record,
    check_plain,
    decode_control,
    decode_records,
    decode_values,
    encode_batch,
    encode_control_batch,
    end_of_records,
    iterate_body,
    iterate_records,
    membership_records,
    read_header,
    scan,
)
from pykraft.protocol.writer import compile_writer
from pykraft.types import (
    Buffer,
    ControlRecord,
    Endpoint,
    Epoch,
    KRaftVersion,
    KRaftVoters,
    LeaderChange,
    Listeners,
    NodeId,
    Offset,
    ReplicaKey,
    SnapshotFooter,
    SnapshotHeader,
    VersionRange,
    Voter,
    VoterSet,
    uuid_parse,
)
from tests.protocol.test_compression import compress

GOLDEN = Path(__file__).parents[1] / "golden"
PATTERNS = ("*/disk/**/*.log", "*/disk/**/*.log.deleted", "*/disk/**/*.checkpoint")
LOGS = sorted(path for pattern in PATTERNS for path in GOLDEN.glob(pattern) if path.stat().st_size > 0)

LEADER_CHANGE_BATCH = bytes.fromhex("""
    0000000000000000 0000005e 00000001 02 e6df4f44 0020 00000000 000001a1fbf8dbe6 000001a1fbf8dbe6
    ffffffffffffffff ffff ffffffff 00000001
    58 00 00 00 08 00000002 44 0000 00000003 04 00000001 00 00000002 00 00000003 00
    03 00000003 00 00000002 00 00 00
""")
"""By Kafka 4.3.1: epoch 1, leader 3, voters 1 to 3, granted by 3 and 2."""

BOOTSTRAP_CHECKPOINT = bytes.fromhex("""
    0000000000000000 0000009a 00000000 02 66610010 0020 00000002 000001a1fbfaccb8 000001a1fbfaccb8
    ffffffffffffffff ffff ffffffff 00000003
    2a 00 00 00 08 00000003 16 0000 000001a1fbfaccae 00 00
    1e 00 00 02 08 00000005 0a 0000 0001 00 00
    8201 00 00 04 08 00000006 6e 0000 02 00000001 4e651327b463440bb0ec939b2a461afe
    02 0b434f4e54524f4c4c4552 0a6c6f63616c686f7374 4af8 00 0000 0001 00 00 00 00
    0000000000000003 0000003f 00000000 02 77fa4479 0020 00000000 000001a1fbfaccc1 000001a1fbfaccc1
    ffffffffffffffff ffff ffffffff 00000001
    1a 00 00 00 08 00000004 06 0000 00 00
""")
"""The snapshot 0-0 that StorageTool of Kafka 4.3.1 makes for one standalone controller."""


def resealed(batch: Buffer, *, attributes: int | None = None, body: bytes | None = None) -> bytes:
    """The batch with other attributes or records, its length and CRC made right."""
    changed = bytearray(batch[:HEADER_SIZE_BYTES]) + (bytes(batch[HEADER_SIZE_BYTES:]) if body is None else body)
    struct.pack_into(">i", changed, 8, len(changed) - 12)
    if attributes is not None:
        struct.pack_into(">h", changed, 21, attributes)
    struct.pack_into(">I", changed, 17, crc32c(changed[21:]))
    return bytes(changed)


# Kafka's own bytes


@pytest.mark.conformance(116, 148)
def test_a_leader_change_batch_of_kafka() -> None:
    record = LeaderChange(
        leader_id=NodeId(3), voters=(NodeId(1), NodeId(2), NodeId(3)), granting_voters=(NodeId(3), NodeId(2))
    )
    assert decode_control(LEADER_CHANGE_BATCH) == [record]
    written = encode_control_batch([record], base_offset=Offset(0), epoch=Epoch(1), timestamp_ms=0x1A1FBF8DBE6).data
    assert written == LEADER_CHANGE_BATCH


@pytest.mark.conformance(116, 148)
def test_a_bootstrap_checkpoint_of_kafka() -> None:
    (_, head), (position, foot) = scan(BOOTSTRAP_CHECKPOINT)
    voter = Voter(
        key=ReplicaKey(NodeId(1), uuid_parse("TmUTJ7RjRAuw7JObKkYa_g")),
        listeners=Listeners((("CONTROLLER", Endpoint("localhost", 19192)),)),
        kraft_version=VersionRange(0, 1),
    )
    opening: list[ControlRecord] = [SnapshotHeader(0x1A1FBFACCAE), KRaftVersion(1), KRaftVoters(VoterSet((voter,)))]
    assert decode_control(BOOTSTRAP_CHECKPOINT[:position]) == opening
    assert decode_control(BOOTSTRAP_CHECKPOINT[position:]) == [SnapshotFooter()]
    written = [
        encode_control_batch(opening, base_offset=Offset(0), epoch=Epoch(0), timestamp_ms=head.base_timestamp).data,
        encode_control_batch(
            [SnapshotFooter()], base_offset=Offset(3), epoch=Epoch(0), timestamp_ms=foot.base_timestamp
        ).data,
    ]
    assert b"".join(written) == BOOTSTRAP_CHECKPOINT


def test_the_recordings_are_all_there() -> None:
    assert len(LOGS) == 66


@pytest.mark.conformance(113, 116, 148)
@pytest.mark.parametrize("path", LOGS, ids=lambda path: str(path.relative_to(GOLDEN)))
def test_every_batch_of_a_recording_encodes_to_the_same_bytes(path: Path) -> None:
    data = path.read_bytes()
    end = 0
    for position, header in scan(data):
        batch = data[position : position + header.size_bytes]
        again = again_control(batch, header) if header.is_control else again_values(batch, header)
        assert again == (header, batch)
        assert [record.offset for record in decode_records(batch)] == list(range(header.base_offset, header.end_offset))
        end = position + header.size_bytes
    assert end == len(data)


def again_values(batch: bytes, header: BatchHeader) -> EncodedBatch:
    values = decode_values(batch)
    assert [record.value for record in decode_records(batch)] == values
    return encode_batch(values, base_offset=header.base_offset, epoch=header.epoch, timestamp_ms=header.base_timestamp)


def again_control(batch: bytes, header: BatchHeader) -> EncodedBatch:
    records = decode_control(batch)
    again = encode_control_batch(
        records, base_offset=header.base_offset, epoch=header.epoch, timestamp_ms=header.base_timestamp
    )
    if len(records) == 1 and again.data != batch and isinstance(records[0], KRaftVoters):
        # Java wrote the voters in the order of a hash map; ours go by id. Otherwise they must be the same.
        assert decode_control(again.data) == records
        (record,) = decode_records(batch)
        return EncodedBatch(header, batch) if table_round_trip(record) == record.value else again
    return again


def table_round_trip(record: Record) -> bytes:
    """The value read and written by its table, which keeps the order."""
    assert record.value is not None
    kind, body = read_control_body(record.key, record.value)
    (value,) = compile_writer(TABLES[kind], 0)(body, b"")
    return bytes(value)


# Records of any client

BLOBS = st.none() | st.binary(max_size=80)
HEADERS = st.lists(st.tuples(st.text(max_size=10), BLOBS), max_size=3).map(tuple)
FOREIGN = st.lists(st.tuples(st.integers(0, 3000), st.integers(-5, 5), BLOBS, BLOBS, HEADERS), min_size=1, max_size=8)
START_MS = 1_795_228_030_000


def written_by_kio(records: list[Record], *, base_sequence: int = -1) -> bytes:
    with io.BytesIO() as sink:
        write_batch(
            sink,
            kio.NewRecordBatch(
                producer_id=i64(-1),
                producer_epoch=i16(-1),
                partition_leader_epoch=i32(4),
                base_sequence=i32(base_sequence),
                attributes=i16(0),
                records=tuple(
                    kio.Record(
                        attributes=i8(0),
                        timestamp=TZAwareMicros.parse(
                            datetime.datetime.fromtimestamp(record.timestamp_ms // 1000, datetime.UTC)
                        ),
                        offset=i64(record.offset),
                        key=record.key,
                        value=record.value,
                        headers=tuple(
                            kio.RecordHeader(key=name.encode(), value=value) for name, value in record.headers
                        ),
                    )
                    for record in records
                ),
            ),
        )
        return sink.getvalue()


@given(FOREIGN, st.integers(0, 2**40), st.sampled_from(Compression))
def test_records_that_kio_wrote_are_read_on_every_codec(
    drawn: list[tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]],
    offset: int,
    codec: Compression,
) -> None:
    records = []
    for gap, seconds, key, value, headers in drawn:
        records.append(Record(Offset(offset), START_MS + seconds * 1000, -1, key, value, headers))
        offset += gap + 1
    plain = written_by_kio(records)
    batch = resealed(plain, attributes=codec, body=compress(codec, plain[HEADER_SIZE_BYTES:]))
    assert decode_records(batch) == decode_records(memoryview(batch)) == records


@pytest.mark.parametrize("codec", Compression)
def test_records_that_java_wrote_are_read_on_every_codec(codec: Compression) -> None:
    batch = (Path(__file__).parent / "batches" / f"{codec.name.lower()}.bin").read_bytes()
    assert read_header(batch).compression is codec
    assert decode_records(batch) == [
        Record(
            offset=Offset(77 + i),
            timestamp_ms=1_000_000 + i * 3 - (i % 7) * 1000,
            sequence=(2**31 - 21 + i) % 2**31,
            key=None if i % 4 == 0 else b"k%d" % i,
            value=None if i % 11 == 0 else bytes([i]) * (i * 7),
            headers=() if i % 2 == 0 else ((f"h{i}", b"x%d" % i), ("n", None)),
        )
        for i in range(40)
    ]


def test_sequences_count_from_the_batch_and_wrap() -> None:
    records = [Record(Offset(offset), START_MS, -1, None, b"v") for offset in (10, 11, 13)]
    batch = written_by_kio(records, base_sequence=2**31 - 2)
    assert [record.sequence for record in decode_records(batch)] == [2**31 - 2, 2**31 - 1, 1]


def test_log_append_time_overrides_the_records_own() -> None:
    records = [Record(Offset(0), START_MS, -1, None, b"v"), Record(Offset(1), START_MS + 9000, -1, None, b"v")]
    batch = resealed(written_by_kio(records), attributes=0x08)
    assert [record.timestamp_ms for record in decode_records(batch)] == [START_MS + 9000] * 2


@pytest.mark.conformance(116)
def test_a_batch_that_a_cleaner_emptied_has_no_records() -> None:
    batch = bytearray(resealed(seal(record()), body=b""))
    struct.pack_into(">i", batch, 57, 0)
    assert decode_records(resealed(batch)) == []


def test_the_bound_of_the_output_is_the_callers() -> None:
    plain = encode_batch([bytes(1000)] * 100, base_offset=Offset(0), epoch=Epoch(0), timestamp_ms=0).data
    body = compress(Compression.ZSTD, plain[HEADER_SIZE_BYTES:])
    batch = resealed(plain, attributes=Compression.ZSTD, body=body)
    assert len(decode_records(batch)) == 100
    assert decode_values(batch) == [bytes(1000)] * 100
    with pytest.raises(ProtocolError, match="expand beyond 50000 bytes"):
        list(iterate_records(batch, size_bytes_max=50_000))


# Damage


def record(*fields: int | bytes) -> bytes:
    """A record of these fields, by default a usual one, with the right length in front."""
    fields = fields or (b"\x00", 0, 0, -1, 3, b"abc", 0)
    rest = b"".join(field if isinstance(field, bytes) else encode_varint(field) for field in fields)
    return encode_varint(len(rest)) + rest


def seal(*records: bytes) -> bytes:
    return seal_batch(
        b"".join(records), count=len(records), base_offset=Offset(5), epoch=Epoch(2), timestamp_ms=START_MS
    ).data


def test_a_record_by_hand() -> None:
    batch = seal(record(b"\x00", -7, 0, 1, b"k", -1, 2, 1, b"a", -1, 0, 2, b"vv"))
    assert decode_records(batch) == [Record(Offset(5), START_MS - 7, -1, b"k", None, (("a", None), ("", b"vv")))]


@pytest.mark.parametrize(
    ("records", "problem"),
    [
        ([b"\x00" * 7], "record 0 of the batch has length 0, 6 bytes are left"),
        ([b"\x01" * 7], "has length -1, 6 bytes are left"),
        ([b"\x7e" * 7], "has length 63, 6 bytes are left"),
        ([b"\x80" * 7], "takes over 5 bytes"),
        ([record(), record()], "record 1 of the batch has offset delta 0 after 0, the last is 1"),
        ([record(b"\x00", 0, 1, -1, 3, b"abc", 0)], "has offset delta 1 after -1, the last is 0"),
        ([record(b"\x00", 0, -1, -1, 3, b"abc", 0)], "has offset delta -1 after -1"),
        ([record(b"\x00", 2**63 - 1, 0, -1, 3, b"abc", 0)], "has timestamp delta 9223372036854775807"),
        ([record(b"\x00", 0, 0, -2, 3, b"abc", 0)], "has a key of -2 bytes, 5 are left"),
        ([record(b"\x00", 0, 0, 6, 3, b"abc", 0)], "has a key of 6 bytes, 5 are left"),
        ([record(b"\x00", 0, 0, -1, 5, b"abc", 0)], "has a value of 5 bytes, 4 are left"),
        ([record(b"\x00", 0, 0, -1, 3, b"abc", -1)], "has -1 headers, 0 bytes are left"),
        ([record(b"\x00", 0, 0, -1, 3, b"abc", 2**31 - 1)], "has 2147483647 headers, 0 bytes are left"),
        ([record(b"\x00", 0, 0, -1, 3, b"abc", 1, -1, -1)], "has a header without a name"),
        ([record(b"\x00", 0, 0, -1, 3, b"abc", 1, 1, b"\xff", -1)], "whose name is not UTF-8: invalid start byte"),
        ([record(b"\x00", 0, 0, -1, 3, b"abc", 1, 0, 9)], "has a header of 9 bytes, 0 are left"),
        ([record(b"\x00", 0, 0, -1, 3, b"abc", 0, b"??")], "has 2 bytes after its headers"),
        ([record(b"\x00", 0, 0, -1, 3, b"abc")], "a varint is cut off at byte 8"),
        ([record(), record(b"\x00", 0, 1, -1, 0, 0) + b"??"], "2 bytes follow the last record"),
    ],
)
def test_a_damaged_record_is_refused(records: list[bytes], problem: str) -> None:
    with pytest.raises(ProtocolError, match=problem) as caught:
        decode_records(seal(*records))
    assert caught.value.code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("decode", [decode_records, decode_control])
def test_a_batch_cut_at_any_byte_is_refused(decode: Callable[[bytes], object]) -> None:
    for size_bytes in range(len(LEADER_CHANGE_BATCH)):
        with pytest.raises(ProtocolError) as caught:
            decode(LEADER_CHANGE_BATCH[:size_bytes])
        assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.conformance(116)
def test_every_flipped_bit_under_the_crc_is_seen() -> None:
    for bit in range(17 * 8, len(LEADER_CHANGE_BATCH) * 8):
        flipped = bytearray(LEADER_CHANGE_BATCH)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(ProtocolError):
            decode_control(flipped)


@given(st.data())
def test_damage_under_a_right_crc_is_refused_or_read_but_never_breaks(draw: st.DataObject) -> None:
    batch = bytearray(BOOTSTRAP_CHECKPOINT[:166])
    for _ in range(draw.draw(st.integers(1, 3))):
        batch[draw.draw(st.integers(21, 165))] = draw.draw(st.integers(0, 255))
    for decode in (decode_control, decode_records):
        try:
            decode(resealed(batch))
        except ProtocolError as error:
            assert error.code in (ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE)


@pytest.mark.conformance(116)
def test_a_data_batch_holds_no_control_records() -> None:
    with pytest.raises(ProtocolError, match="data batch") as caught:
        decode_control(seal(record()))
    assert caught.value.code is ErrorCode.INVALID_RECORD


def test_a_control_batch_of_voters_has_an_offset_for_each_record() -> None:
    records: list[ControlRecord] = [KRaftVersion(1), SnapshotFooter()]
    batch = bytearray(encode_control_batch(records, base_offset=Offset(7), epoch=Epoch(1), timestamp_ms=1).data)
    assert list(membership_records(batch)) == [(7, KRaftVersion(1))]
    batch[23:27] = struct.pack(">i", 3)
    batch[17:21] = struct.pack(">I", crc32c(bytes(batch[21:])))
    with pytest.raises(ProtocolError, match="a control batch of 4 offsets holds 2 records") as caught:
        list(membership_records(batch))
    assert caught.value.code is ErrorCode.INVALID_RECORD


def test_a_transaction_marker_does_not_belong_into_a_raft_log() -> None:
    commit = record(b"\x00", 0, 0, 4, struct.pack(">hh", 0, 1), 6, struct.pack(">hi", 0, 0), 0)
    with pytest.raises(ProtocolError, match="type 1 is not one of Raft's"):
        decode_control(resealed(seal(commit), attributes=0x20))
    assert read_header(resealed(seal(commit), attributes=0x20)).is_control


def test_damage_can_be_looked_at() -> None:
    damaged = bytearray(LEADER_CHANGE_BATCH)
    damaged[17] ^= 1
    assert decode_records(damaged, verify_crc=False) == decode_records(LEADER_CHANGE_BATCH)


@pytest.mark.parametrize("codec", [codec for codec in Compression if codec is not Compression.NONE])
def test_a_compressed_control_batch_is_refused_unread(codec: Compression) -> None:
    plain = encode_control_batch([KRaftVersion(1)], base_offset=Offset(3), epoch=Epoch(2), timestamp_ms=1).data
    checked = struct.pack(">h", struct.unpack_from(">h", plain, 21)[0] | codec) + plain[23:HEADER_SIZE_BYTES]
    checked += b"garbage of that codec"
    sized = plain[:8] + struct.pack(">i", 9 + len(checked)) + plain[12:17]
    compressed = sized + struct.pack(">I", crc32c(checked)) + checked
    assert read_header(compressed).compression is codec
    for read in (decode_control, lambda batch: list(membership_records(batch))):
        with pytest.raises(ProtocolError, match="a control batch is never compressed") as caught:
            read(compressed)
        assert caught.value.code is ErrorCode.INVALID_RECORD


HEADER = read_header(encode_batch([b"x"], base_offset=Offset(5), epoch=Epoch(1), timestamp_ms=1_000).data)
PLAIN_BLOBS = st.none() | st.binary(max_size=4) | st.sampled_from([bytes(62), bytes(64), bytes(9_000)])
TIMES = st.integers(-3, 3) | st.sampled_from([0, 64, -(2**31), 2**54, 2**55, 2**62, -(2**63)])


def blob(data: bytes | None) -> bytes:
    return encode_varint(-1) if data is None else encode_varint(len(data)) + data


def plain_record(
    delta: int,
    *,
    time_delta: int = 0,
    key: bytes | None = None,
    value: bytes | None = b"v",
    headers: Sequence[tuple[bytes, bytes | None]] = (),
) -> bytes:
    rest = b"\0" + encode_varint(time_delta) + encode_varint(delta) + blob(key) + blob(value)
    rest += encode_varint(len(headers)) + b"".join(blob(name) + blob(text) for name, text in headers)
    return encode_varint(len(rest)) + rest


def header_of(count: int, **changes: Any) -> BatchHeader:
    return replace(HEADER, records_count=count, last_offset_delta=count - 1, **changes)


def read(header: BatchHeader, body: bytes) -> list[Record] | None:
    """The records, if the full reader takes them."""
    try:
        return list(iterate_body(header, body))
    except ProtocolError:
        return None


def is_krafts(header: BatchHeader, found: list[Record]) -> bool:
    return all(not each.key and each.key is None and each.value for each in found) and all(
        each.timestamp_ms == header.base_timestamp for each in found
    )


def plain_times(header: BatchHeader, body: bytes, *, is_kraft: bool) -> tuple[int, int] | None:
    """What `check_plain` returns after all its steps."""
    return run_steps(check_plain(header, body, is_kraft=is_kraft))


def are_plain_records(header: BatchHeader, body: bytes, *, is_kraft: bool) -> bool:
    found = plain_times(header, body, is_kraft=is_kraft)
    if found is not None:
        times = [record.timestamp_ms for record in iterate_body(header, body)]
        assert found == (min(times), max(times))
    return found is not None


def agrees(header: BatchHeader, body: bytes) -> None:
    found = read(header, body)
    if are_plain_records(header, body, is_kraft=False):
        assert found is not None
    if are_plain_records(header, body, is_kraft=True):
        assert found is not None
        assert is_krafts(header, found)


@pytest.mark.parametrize("header", [[-1], [1, b"h", -2], [1, b"\xff", -1]])
def test_headers_that_the_full_reader_refuses_are_not_plain(header: list[int | bytes]) -> None:
    body = record(b"\x00", 0, 0, -1, 3, b"abc", 1, *header)
    assert read(header_of(1), body) is None
    assert not are_plain_records(header_of(1), body, is_kraft=False)


RAW_HEADERS = st.lists(st.tuples(st.binary(max_size=3), PLAIN_BLOBS), max_size=3)


@given(st.lists(st.tuples(PLAIN_BLOBS, RAW_HEADERS), min_size=1, max_size=3), st.integers(0, 60), st.integers(0, 255))
def test_records_with_headers_pass_if_the_full_reader_takes_them(
    rows: list[tuple[bytes | None, list[tuple[bytes, bytes | None]]]], position: int, byte: int
) -> None:
    body = b"".join(plain_record(at, value=value, headers=headers) for at, (value, headers) in enumerate(rows))
    header = header_of(len(rows))
    assert are_plain_records(header, body, is_kraft=False) == (read(header, body) is not None)
    if any(headers for _, headers in rows):
        assert not are_plain_records(header, body, is_kraft=True)
    raw = bytearray(body)
    raw[position % len(raw)] = byte
    agrees(header, bytes(raw))


@pytest.mark.parametrize("headers", [[], [(b"h", b"v")]])
def test_every_change_of_one_byte_passes_only_if_the_full_reader_takes_it(headers: list[tuple[bytes, bytes]]) -> None:
    body = plain_record(0, value=b"abc", headers=headers) + plain_record(1, value=b"d" * 70)
    for position, byte in product(range(len(body)), range(256)):
        raw = bytearray(body)
        raw[position] = byte
        agrees(header_of(2), bytes(raw))


def test_headers_of_a_batch_are_limited_as_the_full_reader_limits_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "HEADERS_MAX", 3)
    body = b"".join(plain_record(at, headers=[(b"a", None)] * 2) for at in range(2))
    header = header_of(2)
    assert read(header, body) is None
    assert not are_plain_records(header, body, is_kraft=False)


@given(st.lists(st.tuples(TIMES, PLAIN_BLOBS, PLAIN_BLOBS), min_size=1, max_size=5))
def test_plain_records_pass_unless_their_times_are_very_large(
    rows: list[tuple[int, bytes | None, bytes | None]],
) -> None:
    body = b"".join(
        plain_record(at, time_delta=time, key=key, value=value) for at, (time, key, value) in enumerate(rows)
    )
    header = header_of(len(rows))
    agrees(header, body)
    found = read(header, body)
    is_small = all(-(2**55) <= time < 2**55 for time, _, _ in rows)
    assert are_plain_records(header, body, is_kraft=False) == is_small
    assert are_plain_records(header, body, is_kraft=True) == (found is not None and is_krafts(header, found))


@given(
    st.lists(st.tuples(TIMES, PLAIN_BLOBS, PLAIN_BLOBS), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 255)), max_size=3),
    st.integers(-2, 2),
    st.integers(0, 2),
)
@example([(0, None, b"v")], [(0, 0x80)], 0, 0)
def test_what_passes_also_passes_the_full_reader(
    rows: list[tuple[int, bytes | None, bytes | None]], changes: list[tuple[int, int]], more: int, cut: int
) -> None:
    raw = bytearray().join(
        plain_record(at, time_delta=time, key=key, value=value) for at, (time, key, value) in enumerate(rows)
    )
    for at, byte in changes:
        raw[at % len(raw)] = byte
    agrees(header_of(max(1, len(rows) + more)), bytes(raw[: len(raw) - cut]))


@pytest.mark.parametrize(
    ("header", "body"),
    [
        (replace(header_of(1), last_offset_delta=1), plain_record(0)),
        (header_of(1, attributes=0x08, max_timestamp=7), plain_record(0)),
        (header_of(1), plain_record(1)),
        (header_of(1), plain_record(0) + b"x"),
        (header_of(2), plain_record(0)),
        (header_of(1), plain_record(0)[:-1]),
        (header_of(1, base_timestamp=2**62), plain_record(0)),
        (header_of(1), plain_record(0, key=b"k")[:-1] + b"\2"),
        (header_of(1), bytes.fromhex("0e00000003020076")),
        (header_of(1), bytes.fromhex("0e00000001030076")),
        (header_of(1), b""),
        (header_of(1), b"\xff" * 9),
    ],
)
def test_what_is_unusual_is_left_to_the_full_reader(header: BatchHeader, body: bytes) -> None:
    assert not are_plain_records(header, body, is_kraft=False)
    assert not are_plain_records(header, body, is_kraft=True)


def test_the_starts_of_records_follow_from_their_lengths() -> None:
    values = [b"a", b"a" * 60, b"b" * 200, b"c" * 9_000, b"d"]
    batch = bytes(encode_batch(values, base_offset=Offset(0), epoch=Epoch(0), timestamp_ms=0).data)
    starts: list[int] = []
    assert end_of_records(batch, HEADER_SIZE_BYTES, len(values), starts) == len(batch)
    ends = [*starts[1:], len(batch)]
    assert [batch[end - 1 - len(value) : end - 1] for value, end in zip(values, ends, strict=True)] == values


@pytest.mark.parametrize("data", [b"", b"\x02", b"\x80", b"\xff\xff", b"\xff\xff\xff\xff\xff\xff", b"\x81\x80\x00"])
def test_lengths_that_lead_nowhere_have_no_end(data: bytes) -> None:
    assert end_of_records(data, 0, 3, []) == -1
