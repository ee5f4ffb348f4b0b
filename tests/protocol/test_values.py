"""KRaft data batches: round trips on both paths, compared with kio, and every record that KRaft rejects."""

import random

import pytest
from crc32c import crc32c
from hypothesis import example, given
from hypothesis import strategies as st
from kio.records.readers import read_batch

from pykraft.errors import ErrorCode, ProtocolError, UsageError
from pykraft.protocol.batch import HEADER_SIZE_BYTES, seal_batch
from pykraft.protocol.control import encode_control
from pykraft.protocol.primitives import encode_varint
from pykraft.protocol.records import encode_control_batch
from pykraft.protocol.values import (
    HEADS_MIN,
    KEPT_PLACES_MAX,
    _heads_of,
    _pieces_of_any_size,
    batch_size_bytes,
    decode_values,
    encode_batch,
    encode_in_place,
    records_size_bytes,
)
from pykraft.types import Epoch, Offset, SnapshotFooter

VALUES = st.lists(st.binary(min_size=1, max_size=150), min_size=1, max_size=80)
EQUAL_SIZES = st.integers(1, 200).flatmap(
    lambda size: st.lists(st.binary(min_size=size, max_size=size), min_size=1, max_size=80)
)


def encode(values: list[bytes]) -> bytes:
    return encode_batch(values, base_offset=Offset(5), epoch=Epoch(2), timestamp_ms=1_795_228_030_000).data


def seal(body: bytes, count: int = 1) -> bytes:
    return seal_batch(body, count=count, base_offset=Offset(5), epoch=Epoch(2), timestamp_ms=1_795_228_030_000).data


def record(*fields: int | bytes) -> bytes:
    """A record of these fields with the right length in front: numbers as varints, bytes as they are."""
    rest = b"".join(field if isinstance(field, bytes) else encode_varint(field) for field in fields)
    return encode_varint(len(rest)) + rest


@pytest.mark.conformance(113)
@given(VALUES | EQUAL_SIZES)
@example([b"x" * size for size in range(1, 70)])
@example([b"x"] * 65)
@example([b"a", b"bc"])
def test_values_come_back(values: list[bytes]) -> None:
    batch = encode(values)
    assert len(batch) == batch_size_bytes(values)
    assert decode_values(batch) == decode_values(memoryview(batch)) == values


@pytest.mark.conformance(113)
@pytest.mark.parametrize("count", [63, 64, 65, 1024, 1025, 8191, 8192, 8193, KEPT_PLACES_MAX, KEPT_PLACES_MAX + 1])
def test_batches_around_the_ends_of_runs(count: int) -> None:
    equal = [b"%07d" % index for index in range(count)]
    assert decode_values(encode(equal)) == equal
    mixed = [b"%d" % index for index in range(count)]
    assert decode_values(encode(mixed)) == mixed
    for values in (equal, mixed):
        assert len(encode(values)) == batch_size_bytes(values)


@pytest.mark.conformance(113)
def test_sizes_where_lengths_take_another_byte() -> None:
    chance = random.Random(1)
    for size in (55, 56, 57, 58, 59, 63, 64, 8180, 8185, 8190, 8191, 8192, 1_048_570, 1_048_576):
        values = [chance.randbytes(size), chance.randbytes(size)]
        assert decode_values(encode(values)) == values
        assert len(encode(values)) == batch_size_bytes(values)


@given(VALUES)
def test_kio_reads_the_same(values: list[bytes]) -> None:
    found, size_bytes = read_batch(encode(values), 0)
    assert size_bytes == batch_size_bytes(values)
    assert [one.value for one in found.records] == values
    assert [one.offset for one in found.records] == list(range(5, 5 + len(values)))
    assert {(one.key, one.headers) for one in found.records} == {(None, ())}
    assert (found.partition_leader_epoch, found.last_offset_delta) == (2, len(values) - 1)


@pytest.mark.conformance(112, 113)
@given(VALUES, st.data())
def test_sizes_add_up_over_appends(values: list[bytes], draw: st.DataObject) -> None:
    cut = draw.draw(st.integers(0, len(values)))
    first = records_size_bytes(values[:cut])
    second = records_size_bytes(values[cut:], first_delta=cut)
    assert HEADER_SIZE_BYTES + first + second == batch_size_bytes(values)


@pytest.mark.conformance(113)
def test_nothing_and_empty_values_are_not_written() -> None:
    with pytest.raises(UsageError, match="at least one value"):
        encode([])
    with pytest.raises(UsageError, match="value 1 of the batch is empty"):
        encode([b"a", b""])
    with pytest.raises(UsageError, match="value 70 of the batch is empty"):
        encode([b"a"] * 70 + [b""])


@pytest.mark.conformance(113)
@given(VALUES | EQUAL_SIZES)
@example([b"x" * 100] * 130)
def test_values_of_one_size_are_written_like_any_others(values: list[bytes]) -> None:
    by_hand = b"".join(record(b"\0", 0, delta, -1, len(value), value, 0) for delta, value in enumerate(values))
    assert encode(values)[HEADER_SIZE_BYTES:] == by_hand
    assert b"".join(_pieces_of_any_size(values))[1:] + b"\0" == by_hand


@given(VALUES | EQUAL_SIZES)
def test_a_batch_is_the_same_where_it_was_made(values: list[bytes]) -> None:
    header, batch = encode_in_place(values, base_offset=Offset(5), epoch=Epoch(2), timestamp_ms=7)
    assert (header, bytes(batch)) == encode_batch(values, base_offset=Offset(5), epoch=Epoch(2), timestamp_ms=7)
    assert memoryview(batch).readonly


def test_heads_are_made_as_far_as_they_are_needed() -> None:
    heads = _heads_of(100_001)
    assert len(heads.first(1)) == 1
    for count in (3, HEADS_MIN, HEADS_MIN + 1, 3_000):
        assert heads.first(count) == _heads_of(100_001).first(count)
        assert len(heads.first(count)) == count
        assert len(heads) < max(2 * count, HEADS_MIN + 1)


def test_a_usual_record_by_hand() -> None:
    assert decode_values(seal(record(b"\x00", 0, 0, -1, 3, b"abc", 0))) == [b"abc"]


def test_long_forms_of_numbers_and_a_used_attribute_are_read() -> None:
    assert decode_values(seal(record(b"\x01", b"\x80\x00", b"\x80\x00", b"\x81\x00", 3, b"abc", 0))) == [b"abc"]


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (record(b"\x00", 1, 0, -1, 3, b"abc", 0), "record 0 of the batch has timestamp delta 1"),
        (record(b"\x00", 0, 1, -1, 3, b"abc", 0), "has offset delta 1"),
        (record(b"\x00", 0, 0, 0, 3, b"abc", 0), "has a key of 0 bytes"),
        (record(b"\x00", 0, 0, -1, 0, b"xxx", 0), "has a value of 0 bytes"),
        (record(b"\x00", 0, 0, -1, -1, b"xxx", 0), "has a value of -1 bytes"),
        (record(b"\x00", 0, 0, -1, 4, b"abc", 0), "has a value of 4 bytes, which should end in byte 3"),
        (record(b"\x00", 0, 0, -1, 2, b"abc", 0), "has a value of 2 bytes"),
        (record(b"\x00", 0, 0, -1, 3, b"abc", 1), "has headers"),
        (b"\x00" * 9, "has length 0, 8 bytes are left"),
        (b"\x01" * 9, "has length -1, 8 bytes are left"),
        (b"\x7e" * 9, "has length 63, 8 bytes are left"),
        (record(b"\x00", 0, 0, -1, 3, b"abc", 0) + b"\x00", "1 bytes follow the last record"),
        (b"\x80" * 9, "takes over 5 bytes"),
    ],
)
def test_a_record_that_kraft_does_not_write_is_refused(body: bytes, problem: str) -> None:
    with pytest.raises(ProtocolError, match=problem) as caught:
        decode_values(seal(body))
    assert caught.value.code is ErrorCode.INVALID_RECORD


def test_a_count_that_is_not_that_of_the_offsets_is_refused() -> None:
    batch = bytearray(encode([b"a", b"b"]))
    batch[23:27] = (4).to_bytes(4, "big")
    body = seal_of(batch)
    with pytest.raises(ProtocolError, match="2 records for 5 offsets"):
        decode_values(body)


def seal_of(batch: bytearray) -> bytes:
    """The batch with its CRC made right."""
    batch[17:21] = crc32c(batch[21:]).to_bytes(4, "big")
    return bytes(batch)


def test_a_control_batch_holds_no_values() -> None:
    footer = SnapshotFooter()
    batch = encode_control_batch([footer], base_offset=Offset(0), epoch=Epoch(1), timestamp_ms=0).data
    with pytest.raises(ProtocolError, match="control batch"):
        decode_values(batch)
    key, value = encode_control(footer)
    with pytest.raises(ProtocolError, match="key of 4 bytes"):
        decode_values(seal(record(b"\x00", 0, 0, len(key), key, len(value), value, 0)))


@given(st.lists(st.binary(min_size=1, max_size=20), min_size=2, max_size=4), st.data())
def test_damage_under_a_right_crc_is_refused_or_read_but_never_breaks(values: list[bytes], draw: st.DataObject) -> None:
    batch = bytearray(encode(values))
    position = draw.draw(st.integers(HEADER_SIZE_BYTES, len(batch) - 1))
    batch[position] = draw.draw(st.integers(0, 255))
    try:
        found = decode_values(seal_of(batch))
    except ProtocolError as error:
        assert error.code is ErrorCode.INVALID_RECORD
    else:
        assert len(found) == len(values)


def test_a_batch_cut_at_any_byte_is_refused() -> None:
    batch = encode([b"first", b"second value"])
    for size_bytes in range(len(batch)):
        with pytest.raises(ProtocolError) as caught:
            decode_values(batch[:size_bytes])
        assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
