"""The quick check of a batch's records agrees with the full reader wherever it says yes.

Source: Kafka's ``DefaultRecord``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pykraft.errors import ProtocolError
from pykraft.protocol.batch import BatchHeader, read_header
from pykraft.protocol.plain_records import are_plain_records
from pykraft.protocol.records import Record, encode_batch, iterate_body
from pykraft.protocol.varint import encode_varint
from pykraft.types import Epoch, Offset

HEADER = read_header(encode_batch([b"x"], base_offset=Offset(5), epoch=Epoch(1), timestamp_ms=1_000).data)
BLOBS = st.none() | st.binary(max_size=4) | st.sampled_from([bytes(62), bytes(64), bytes(9_000)])
TIMES = st.integers(-3, 3) | st.sampled_from([0, 64, -(2**31), 2**54, 2**55, 2**62, -(2**63)])


def blob(data: bytes | None) -> bytes:
    return encode_varint(-1) if data is None else encode_varint(len(data)) + data


def record(delta: int, *, time_delta: int = 0, key: bytes | None = None, value: bytes | None = b"v") -> bytes:
    rest = b"\0" + encode_varint(time_delta) + encode_varint(delta) + blob(key) + blob(value) + b"\0"
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


def agrees(header: BatchHeader, body: bytes) -> None:
    found = read(header, body)
    if are_plain_records(header, body, is_kraft=False):
        assert found is not None
    if are_plain_records(header, body, is_kraft=True):
        assert found is not None
        assert is_krafts(header, found)


@given(st.lists(st.tuples(TIMES, BLOBS, BLOBS), min_size=1, max_size=5))
def test_plain_records_pass_unless_their_times_are_very_large(
    rows: list[tuple[int, bytes | None, bytes | None]],
) -> None:
    body = b"".join(record(at, time_delta=time, key=key, value=value) for at, (time, key, value) in enumerate(rows))
    header = header_of(len(rows))
    agrees(header, body)
    found = read(header, body)
    is_small = all(-(2**55) <= time < 2**55 for time, _, _ in rows)
    assert are_plain_records(header, body, is_kraft=False) == is_small
    assert are_plain_records(header, body, is_kraft=True) == (found is not None and is_krafts(header, found))


@given(
    st.lists(st.tuples(TIMES, BLOBS, BLOBS), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 255)), max_size=3),
    st.integers(-2, 2),
    st.integers(0, 2),
)
@example([(0, None, b"v")], [(0, 0x80)], 0, 0)
def test_what_passes_also_passes_the_full_reader(
    rows: list[tuple[int, bytes | None, bytes | None]], changes: list[tuple[int, int]], more: int, cut: int
) -> None:
    raw = bytearray().join(
        record(at, time_delta=time, key=key, value=value) for at, (time, key, value) in enumerate(rows)
    )
    for at, byte in changes:
        raw[at % len(raw)] = byte
    agrees(header_of(max(1, len(rows) + more)), bytes(raw[: len(raw) - cut]))


@pytest.mark.parametrize(
    ("header", "body"),
    [
        (replace(header_of(1), last_offset_delta=1), record(0)),
        (header_of(1, attributes=0x08, max_timestamp=7), record(0)),
        (header_of(1), record(1)),
        (header_of(1), record(0) + b"x"),
        (header_of(2), record(0)),
        (header_of(1), record(0)[:-1]),
        (header_of(1, base_timestamp=2**62), record(0)),
        (header_of(1), record(0, key=b"k")[:-1] + b"\2"),
        (header_of(1), bytes.fromhex("0e00000003020076")),
        (header_of(1), bytes.fromhex("0e00000001030076")),
        (header_of(1), b""),
        (header_of(1), b"\xff" * 9),
    ],
)
def test_what_is_unusual_is_left_to_the_full_reader(header: BatchHeader, body: bytes) -> None:
    assert not are_plain_records(header, body, is_kraft=False)
    assert not are_plain_records(header, body, is_kraft=True)
