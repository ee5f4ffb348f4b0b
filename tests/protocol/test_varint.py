"""Zigzag varints: Kafka's published values, round trips over the whole range, and every way to be malformed.

Source: KIP-98 §Message Format; Kafka's ``ByteUtils.readVarint``, ``readVarlong``.
"""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.serial.writers import write_signed_varint, write_signed_varlong
from kio.static.primitive import i32, i64

from pykraft.errors import ErrorCode, ProtocolError
from pykraft.protocol.varint import encode_varint, read_varint, read_varlong, varint_size_bytes

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
