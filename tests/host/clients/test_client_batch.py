"""Which batches of clients a leader takes, in each of the two profiles.

Source: Kafka's ``LogValidator``; ours (ADR 065).
"""

from __future__ import annotations

import gzip
import zlib

import pytest

from pykraft.errors import ErrorCode, ProtocolError
from pykraft.host.clients.client_batch import StrictProfile, check_client_batch
from pykraft.protocol.primitives import encode_varint
from pykraft.protocol.records import encode_batch, encode_control_batch
from pykraft.types import Buffer, Epoch, LeaderChange, NodeId, Offset
from tests.host.clients.world import with_header
from tests.memory import taking_less_than

GOOD = encode_batch([b"a", b"bc"], base_offset=Offset(0), epoch=Epoch(0), timestamp_ms=7).data
CONTROL = encode_control_batch(
    [LeaderChange(leader_id=NodeId(1), voters=(NodeId(1),), granting_voters=(NodeId(1),))],
    base_offset=Offset(0),
    epoch=Epoch(0),
    timestamp_ms=7,
).data


def record(*, delta_ms: int = 0, key: bytes | None = None, value: bytes | None = b"v", headers: bytes = b"\0") -> bytes:
    def blob(data: bytes | None) -> bytes:
        return encode_varint(-1) if data is None else encode_varint(len(data)) + data

    rest = b"\0" + encode_varint(delta_ms) + encode_varint(0) + blob(key) + blob(value) + headers
    return encode_varint(len(rest)) + rest


def batch(body: bytes, **changes: int) -> bytes:
    head = encode_batch([b"x"], base_offset=Offset(0), epoch=Epoch(0), timestamp_ms=7).data[:61]
    raw = bytearray(head + body)
    raw[8:12] = (len(raw) - 12).to_bytes(4, "big")
    return with_header(raw, **changes).data


def check(records: Buffer | None, *, size_bytes_max: int = 1_000, must_be_kraft: bool = False) -> None:
    strict = StrictProfile(why="a Java replica is here") if must_be_kraft else None
    check_client_batch(records, size_bytes_max=size_bytes_max, strict=strict)


def test_a_batch_of_any_client_is_taken() -> None:
    check(GOOD)
    check(GOOD, must_be_kraft=True)
    check(with_header(GOOD, producer_id=3, producer_epoch=0, base_sequence=5).data, must_be_kraft=True)
    packer = zlib.compressobj(wbits=31)
    packed = packer.compress(record(key=b"k", value=None, delta_ms=3)) + packer.flush()
    check(batch(packed, attributes=1))


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (None, ErrorCode.INVALID_RECORD),
        (b"", ErrorCode.INVALID_RECORD),
        (GOOD + GOOD, ErrorCode.INVALID_RECORD),
        (GOOD[:-1] + b"!", ErrorCode.CORRUPT_MESSAGE),
        (GOOD[:-1], ErrorCode.CORRUPT_MESSAGE),
        (b"short", ErrorCode.CORRUPT_MESSAGE),
        (GOOD[:16] + b"\1" + GOOD[17:], ErrorCode.CORRUPT_MESSAGE),
        (CONTROL, ErrorCode.INVALID_RECORD),
        (with_header(GOOD, attributes=0x10).data, ErrorCode.INVALID_RECORD),
        (with_header(GOOD, records_count=0).data, ErrorCode.INVALID_RECORD),
        (with_header(GOOD, last_offset_delta=5).data, ErrorCode.INVALID_RECORD),
        (with_header(GOOD, producer_id=3, producer_epoch=0).data, ErrorCode.INVALID_RECORD),
        (with_header(GOOD, producer_id=3, base_sequence=0).data, ErrorCode.INVALID_RECORD),
        (with_header(GOOD, attributes=4).data, ErrorCode.CORRUPT_MESSAGE),
        (batch(b"\x0e1234567"), ErrorCode.INVALID_RECORD),
        (encode_batch([b"x" * 2_000], base_offset=Offset(0), epoch=Epoch(0), timestamp_ms=7).data, 10),
    ],
)
def test_anything_else_is_refused(records: Buffer | None, code: int) -> None:
    with pytest.raises(ProtocolError) as refused:
        check(records)
    assert refused.value.code == code


def test_a_bomb_takes_a_bounded_amount_of_memory() -> None:
    bomb = batch(gzip.compress(record(value=bytes(10_000_000))), attributes=1)

    def refuse() -> None:
        with pytest.raises(ProtocolError, match="expand beyond 200000 bytes") as refused:
            check(bomb, size_bytes_max=100_000)
        assert refused.value.code == ErrorCode.MESSAGE_TOO_LARGE, "Kafka's producers split such a batch"

    taking_less_than(4 * 100_000 + 64 * 1024, refuse)


def test_many_records_are_checked_one_by_one() -> None:
    many = encode_batch([b"x"] * 20_000, base_offset=Offset(0), epoch=Epoch(0), timestamp_ms=7).data
    taking_less_than(2 * len(many), lambda: check(many, size_bytes_max=len(many)))


@pytest.mark.parametrize(
    ("records", "rule"),
    [
        (batch(record(key=b"")), "a record has a key"),
        (batch(record(value=None)), "a record has no value"),
        (batch(record(value=b"")), "a record has no value"),
        (batch(record(delta_ms=1)), "different timestamps"),
        (batch(record(headers=b"\2\2h\1")), "a record has headers"),
        (with_header(GOOD, attributes=1).data, "compressed with gzip"),
    ],
    ids=["key", "null", "empty", "timestamps", "headers", "gzip"],
)
def test_krafts_profile_names_the_rule_that_a_batch_broke(records: Buffer, rule: str) -> None:
    with pytest.raises(ProtocolError, match=rule) as refused:
        check(records, must_be_kraft=True)
    assert refused.value.code == ErrorCode.INVALID_RECORD
