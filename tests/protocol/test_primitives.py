"""Varints, strings, counts and tagged fields: round trips, Kafka's values; cut or impossible input is rejected."""

import io
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.serial.writers import write_signed_varint, write_signed_varlong
from kio.static.primitive import i32, i64

from pykraft.errors import ErrorCode, ProtocolError, TooManyElementsError
from pykraft.protocol import primitives
from pykraft.protocol.primitives import (
    TAGGED_FIELDS_MAX,
    check_count,
    check_count_max,
    encode_compact_size,
    encode_compact_string,
    encode_size,
    encode_string,
    encode_tags,
    encode_uvarint,
    encode_varint,
    read_compact_size,
    read_int16,
    read_int32,
    read_tag,
    read_tags_count,
    read_text,
    read_unknown_tags,
    read_uvarint,
    read_varint,
    read_varlong,
    read_view,
    skip_tags,
    varint_size_bytes,
)


@pytest.mark.parametrize(
    ("value", "raw"),
    [(0, "00"), (1, "01"), (127, "7f"), (128, "8001"), (300, "ac02"), (2**28, "8080808001"), (2**32 - 1, "ffffffff0f")],
)
def test_uvarint_has_kafkas_bytes(value: int, raw: str) -> None:
    assert encode_uvarint(value).hex() == raw
    assert read_uvarint(bytes.fromhex(raw), 0, len(raw) // 2, "n") == (value, len(raw) // 2)


@given(st.integers(0, 2**32 - 1), st.binary(max_size=3), st.binary(max_size=3))
def test_uvarint_round_trip_between_other_bytes(value: int, before: bytes, after: bytes) -> None:
    raw = encode_uvarint(value)
    data = before + raw + after
    assert read_uvarint(data, len(before), len(data), "n") == (value, len(before) + len(raw))


@pytest.mark.parametrize("raw", ["ffffffff1f", "ffffffffff", "808080808001", "ffffffffffffffffff01"])
def test_uvarint_of_more_than_32_bits_is_refused(raw: str) -> None:
    with pytest.raises(ProtocolError, match="vote: the varint at position 0 does not fit into 32 bits"):
        read_uvarint(bytes.fromhex(raw), 0, len(raw) // 2, "vote")


@pytest.mark.parametrize("size_bytes", range(5))
def test_uvarint_that_is_cut_off_says_where(size_bytes: int) -> None:
    raw = bytes.fromhex("ffffffff0f")[:size_bytes]
    with pytest.raises(ProtocolError, match=f"vote: needs 1 bytes at position {size_bytes}, 0 remain"):
        read_uvarint(raw, 0, size_bytes, "vote")


def test_uvarint_is_not_read_beyond_the_end_of_its_frame() -> None:
    with pytest.raises(ProtocolError):
        read_uvarint(b"\xff\x01", 0, 1, "vote")


@pytest.mark.parametrize("value", [-1, 2**32])
def test_uvarint_out_of_range_is_our_bug(value: int) -> None:
    with pytest.raises(AssertionError):
        encode_uvarint(value)


@pytest.mark.parametrize(
    ("size", "raw"), [(-1, "00"), (0, "01"), (126, "7f"), (127, "8001"), (2**32 - 2, "ffffffff0f")]
)
def test_compact_size_is_one_more_than_the_size(size: int, raw: str) -> None:
    assert encode_compact_size(size).hex() == raw
    assert read_compact_size(bytes.fromhex(raw), 0, len(raw) // 2, "n") == (size, len(raw) // 2)


def test_compact_size_that_is_cut_off_is_refused() -> None:
    with pytest.raises(ProtocolError):
        read_compact_size(b"", 0, 0, "n")


def test_int16_and_int32_sizes() -> None:
    assert read_int16(b"\xff\xff", 0, 2, "n") == (-1, 2)
    assert read_int32(b"\x00\x00\x01\x00", 0, 4, "n") == (256, 4)
    assert encode_size(-1) == b"\xff\xff\xff\xff"
    with pytest.raises(ProtocolError, match="needs 2 bytes at position 0, 1 remain"):
        read_int16(b"\0", 0, 1, "n")
    with pytest.raises(ProtocolError, match="needs 4 bytes at position 0, 3 remain"):
        read_int32(b"\0\0\0", 0, 3, "n")


@given(st.text(max_size=300))
def test_strings_round_trip(value: str) -> None:
    raw = encode_compact_string(value)
    size_bytes, position = read_compact_size(raw, 0, len(raw), "s")
    assert read_text(raw, position, len(raw), size_bytes, "s") == value
    raw = encode_string(value)
    size_bytes, position = read_int16(raw, 0, len(raw), "s")
    assert read_text(memoryview(raw), position, len(raw), size_bytes, "s") == value


def test_string_length_is_bounded_both_ways() -> None:
    longest = "x" * 32767
    assert len(encode_compact_string(longest)) == 32767 + 3
    assert len(encode_string(longest)) == 32767 + 2
    for encode in (encode_compact_string, encode_string):
        with pytest.raises(AssertionError):
            encode(longest + "x")
    for size_bytes in (-1, -2, 32768):
        with pytest.raises(ProtocolError, match=f"name: a string before position 0 has the length {size_bytes}"):
            read_text(bytes(40000), 0, 40000, size_bytes, "name")


def test_string_beyond_its_frame_or_not_utf8_is_refused() -> None:
    with pytest.raises(ProtocolError, match="name: needs 5 bytes at position 1, 3 remain"):
        read_text(b"abcdefgh", 1, 4, 5, "name")
    with pytest.raises(ProtocolError, match="name: the string at position 0 is not UTF-8"):
        read_text(b"\xff\xfe", 0, 2, 2, "name")


def test_records_are_views_and_bounded() -> None:
    data = bytearray(b"abcdef")
    view = read_view(data, 2, 6, 3, "records")
    data[2] = ord("X")
    assert bytes(view) == b"Xde"
    with pytest.raises(ProtocolError, match="records: needs 5 bytes at position 2, 4 remain"):
        read_view(data, 2, 6, 5, "records")
    with pytest.raises(ProtocolError, match="records: the bytes before position 2 have the length -1"):
        read_view(data, 2, 6, -1, "records")


def test_count_is_compared_with_what_remains() -> None:
    check_count(0, 5, 5, 7, "topics")
    check_count(3, 5, 26, 7, "topics")
    with pytest.raises(ProtocolError, match="topics: 4 elements of at least 7 bytes at position 5, 21 bytes remain"):
        check_count(4, 5, 26, 7, "topics")
    with pytest.raises(ProtocolError, match="topics: the array before position 5 has -1 elements"):
        check_count(-1, 5, 26, 7, "topics")


@given(st.dictionaries(st.integers(0, 2**32 - 1), st.binary(max_size=200), max_size=5))
def test_tags_round_trip_in_ascending_order(tags: dict[int, bytes]) -> None:
    raw = encode_tags(tags)
    found, position = read_unknown_tags(raw, 0, len(raw), "tags")
    assert position == len(raw)
    assert found == tags
    assert list(found) == sorted(tags)


def test_tags_out_of_order_or_twice_are_refused() -> None:
    for raw in (b"\x02\x05\x00\x05\x00", b"\x02\x05\x00\x04\x00"):
        with pytest.raises(ProtocolError, match=r"tags: tag \d at position 3 follows tag 5"):
            read_unknown_tags(raw, 0, len(raw), "tags")


def test_tag_data_beyond_the_frame_is_refused() -> None:
    with pytest.raises(ProtocolError, match="tags: needs 3 bytes at position 2, 2 remain"):
        read_tag(b"\x05\x03ab", 0, 4, -1, "tags")
    with pytest.raises(ProtocolError, match="tags: needs 1 bytes at position 1, 0 remain"):
        read_tag(b"\x05", 0, 1, -1, "tags")


def test_number_of_tags_is_bounded() -> None:
    most = encode_tags(dict.fromkeys(range(TAGGED_FIELDS_MAX), b""))
    assert len(read_unknown_tags(most, 0, len(most), "tags")[0]) == TAGGED_FIELDS_MAX
    more = encode_tags(dict.fromkeys(range(TAGGED_FIELDS_MAX + 1), b""))
    with pytest.raises(ProtocolError, match=f"tags: 129 tagged fields before position 2, at most {TAGGED_FIELDS_MAX}"):
        read_tags_count(more, 0, len(more), "tags")
    with pytest.raises(ProtocolError, match="tags: 9 elements of at least 2 bytes at position 1, 2 bytes remain"):
        read_tags_count(b"\x09\x00\x00", 0, 3, "tags")


def test_every_reader_refuses_every_cut() -> None:
    raw = encode_tags({1: b"one", 200: b"x" * 130})
    for end in range(len(raw)):
        with pytest.raises(ProtocolError):
            primitives.read_unknown_tags(raw, 0, end, "tags")


def test_a_count_may_be_as_large_as_its_bound() -> None:
    check_count_max(3, 9, 3, "topics")
    with pytest.raises(TooManyElementsError, match="topics: 4 elements before position 9, at most 3"):
        check_count_max(4, 9, 3, "topics")


def test_tagged_fields_are_passed_over_and_checked() -> None:
    raw = encode_tags({1: b"one", 300: b"x" * 200}) + b"rest"
    assert skip_tags(raw, 0, len(raw), "tags") == len(raw) - 4
    with pytest.raises(ProtocolError, match="tags"):
        skip_tags(raw, 0, 9, "tags")


INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (-65, "8101"),
        (8191, "fe7f"),
        (8192, "808001"),
        (2**31 - 1, "feffffff0f"),
        (-(2**31), "ffffffff0f"),
    ],
)
def test_known_values(value: int, encoded: str) -> None:
    assert encode_varint(value) == bytes.fromhex(encoded)
    assert read_varint(bytes.fromhex(encoded), 0) == (value, len(encoded) // 2)


def test_the_ends_of_int64() -> None:
    assert encode_varint(2**63 - 1) == bytes.fromhex("feffffffffffffffff01")
    assert encode_varint(-(2**63)) == bytes.fromhex("ffffffffffffffffff01")


@given(INT32, st.binary(max_size=3), st.binary(max_size=3))
def test_an_int32_round_trips_anywhere(value: int, before: bytes, after: bytes) -> None:
    encoded = encode_varint(value)
    assert len(encoded) == varint_size_bytes(value)
    assert read_varint(before + encoded + after, len(before)) == (value, len(before) + len(encoded))
    assert read_varlong(memoryview(before + encoded + after), len(before)) == (value, len(before) + len(encoded))


@given(INT64)
def test_an_int64_round_trips(value: int) -> None:
    encoded = encode_varint(value)
    assert len(encoded) == varint_size_bytes(value)
    assert read_varlong(encoded, 0) == (value, len(encoded))


@given(INT32, INT64)
def test_kio_writes_the_same(small: int, large: int) -> None:
    with io.BytesIO() as sink:
        write_signed_varint(sink, i32(small))
        write_signed_varlong(sink, i64(large))
        assert sink.getvalue() == encode_varint(small) + encode_varint(large)


@pytest.mark.parametrize("read", [read_varint, read_varlong])
@pytest.mark.parametrize("encoded", ["", "80", "8080", "80808080"])
def test_a_cut_varint_is_refused(read: Callable[[bytes, int], object], encoded: str) -> None:
    with pytest.raises(ProtocolError, match=f"cut off at byte {len(encoded) // 2}") as caught:
        read(bytes.fromhex(encoded), 0)
    assert caught.value.code is ErrorCode.INVALID_RECORD


def test_an_endless_varint_is_refused() -> None:
    with pytest.raises(ProtocolError, match="at byte 1 takes over 5 bytes"):
        read_varint(b"\x00" + b"\x80" * 20, 1)
    with pytest.raises(ProtocolError, match="at byte 0 takes over 10 bytes"):
        read_varlong(b"\x80" * 20, 0)


def test_a_longer_form_than_needed_is_accepted() -> None:
    assert read_varint(bytes.fromhex("8000"), 0) == (0, 2)
    assert read_varint(bytes.fromhex("8280808000"), 0) == (1, 5)
    assert read_varlong(bytes.fromhex("82808080808080808000"), 0) == (1, 10)


def test_bits_beyond_the_width_are_dropped_as_in_java() -> None:
    assert read_varint(bytes.fromhex("feffffff7f"), 0) == (2**31 - 1, 5)
    assert read_varlong(bytes.fromhex("feffffffffffffffff7f"), 0) == (2**63 - 1, 10)
