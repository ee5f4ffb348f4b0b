"""Records that are parsed in bulk are those that the protocol's decoder reads, and nothing that it refuses is found."""

import random
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pykraft.errors import ProtocolError
from pykraft.protocol.batch import HEADER_SIZE_BYTES, seal_batch
from pykraft.protocol.primitives import encode_varint
from pykraft.protocol.records import HEADERS_MAX, Record, decode_records
from pykraft.spark.data_source import records
from pykraft.spark.data_source.records import HEADERS_EACH_MAX, Bodies, ParsedRecords, cells, merged, parse_records
from pykraft.spark.data_source.selection import HEADERS, arrow_of
from pykraft.types import Epoch, Offset

pytestmark = pytest.mark.spark

BASE_MS = 1_700_000_000_000


def record(
    delta: int,
    *,
    key: bytes | None = None,
    value: bytes | None = b"value",
    headers: Sequence[tuple[bytes | None, bytes | None]] = (),
    time_ms: int = 0,
    rest: bytes = b"",
) -> bytes:
    """One record as it stands in a batch, with something after its headers."""
    body = bytearray(b"\x00") + encode_varint(time_ms) + encode_varint(delta)
    for part in (key, value):
        body += encode_varint(-1) if part is None else encode_varint(len(part)) + part
    body += encode_varint(len(headers))
    for pair in headers:
        for part in pair:
            body += encode_varint(-1) if part is None else encode_varint(len(part)) + part
    body += rest
    return bytes(encode_varint(len(body)) + body)


def batch_of(body: bytes, count: int, *, last_delta: int | None = None) -> bytes:
    """A batch that holds these bytes, and claims so many records."""
    made = seal_batch(body, count=count, base_offset=Offset(5), epoch=Epoch(1), timestamp_ms=BASE_MS).data
    deltas = count - 1 if last_delta is None else last_delta
    return made[:23] + struct.pack(">i", deltas) + made[27:]


def parse(batches: Sequence[bytes]) -> ParsedRecords:
    sizes = np.array([len(each) for each in batches])
    ends = np.cumsum(sizes)
    counts = np.array([struct.unpack_from(">i", each, 57)[0] for each in batches])
    last_deltas = np.array([struct.unpack_from(">i", each, 23)[0] for each in batches])
    bodies = Bodies(b"".join(batches), ends - sizes + HEADER_SIZE_BYTES, ends)
    return parse_records(bodies, counts, last_deltas)


def expected(batch: bytes) -> list[Record] | None:
    try:
        return decode_records(batch, verify_crc=False)
    except ProtocolError:
        return None


def agree(batches: Sequence[bytes]) -> list[bool]:
    """Which batches were found; what was found is what the protocol's decoder reads."""
    parsed, data = parse(batches), b"".join(batches)
    row = 0
    for index, batch in enumerate(batches):
        count = struct.unpack_from(">i", batch, 57)[0]
        own = slice(row, row + count)
        row += count
        if not parsed.are_found[index]:
            continue
        known = expected(batch)
        assert known is not None, batch.hex()
        assert (parsed.offset_deltas[own] + 5).tolist() == [each.offset for each in known]
        assert (parsed.time_deltas[own] + BASE_MS).tolist() == [each.timestamp_ms for each in known]
        keys = cells(data, parsed.key_starts[own], parsed.key_sizes[own])
        values = cells(data, parsed.value_starts[own], parsed.value_sizes[own])
        assert keys.to_pylist() == [each.key for each in known]
        assert values.to_pylist() == [each.value for each in known]
        mine = parsed.headers[:, (parsed.headers[0] >= own.start) & (parsed.headers[0] < own.stop)]
        mine[0] -= own.start
        headers = [[(one["key"], one["value"]) for one in each or ()] for each in headers_of(data, mine, count)]
        assert headers == [list(each.headers) for each in known]
    return [bool(is_found) for is_found in parsed.are_found]


def headers_of(data: bytes, headers: np.ndarray, count: int) -> list[list[dict[str, Any]] | None]:
    column = records.headers_column(data, headers, count)
    column.validate(full=True)
    assert column.type == arrow_of(HEADERS).field("headers").type
    found: list[list[dict[str, Any]] | None] = column.to_pylist()
    assert [] not in found  # a record without headers has null, as with Spark's Kafka source
    return found


def some_batch(source: random.Random, *, headers_max: int = 3) -> bytes:
    """One as some client may write it."""

    def blob(most: int = 300) -> bytes | None:
        return None if source.random() < 0.1 else source.randbytes(source.randrange(most))

    count, delta = source.randrange(1, 12), 0
    body = b""
    for _ in range(count):
        names = [b"name" + bytes([source.randrange(97, 123)]) for _ in range(source.choice((0, 0, 1, headers_max)))]
        headers = [(name, blob(9)) for name in names[:headers_max]]
        body += record(delta, key=blob(), value=blob(), headers=headers, time_ms=source.randrange(-90, 90_000))
        delta += source.choice((1, 1, 1, 7))
    return batch_of(body, count, last_delta=delta)


def damaged(source: random.Random, batch: bytes) -> bytes:
    changed = bytearray(batch)
    for _ in range(source.randrange(1, 4)):
        changed[source.randrange(HEADER_SIZE_BYTES, len(changed))] = source.randrange(256)
    return bytes(changed)


@pytest.mark.parametrize("together", [0, 10**9], ids=["a record of each batch", "batch by batch"])
@pytest.mark.parametrize("seed", range(8))
def test_found_records_are_those_of_the_protocol(seed: int, together: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "TOGETHER_MIN", together)
    source = random.Random(seed)
    whole = [some_batch(source) for _ in range(60)]
    assert all(agree(whole))
    agree([damaged(source, batch) for batch in whole])
    # A changed byte of a key or a value is no damage to the records; a number of five bytes is unusual.
    plain = [damaged(source, some_batch(source, headers_max=0)) for _ in range(60)]
    found = agree(plain)
    assert sum(found) > 20
    assert sum((expected(batch) is not None) != is_found for batch, is_found in zip(plain, found, strict=True)) <= 1


PLAIN = record(0)
NO_LENGTH = b"\xff\xff\xff\xff\xff\x0f"


@pytest.mark.parametrize(
    "body",
    [
        PLAIN + b"!",
        PLAIN[:-1],
        b"\x01" + PLAIN[1:],
        b"\x00" + PLAIN[1:],
        NO_LENGTH,
        record(0, rest=b"!"),
        record(1),
        record(0, headers=[(None, b"value")]),
        record(0, headers=[(b"\xff", b"value")]),
        record(0, headers=[(b"a", b"b")])[:-1] + b"",
        bytes(encode_varint(9)) + b"\x00\x00\x00\x01\x01\x7f" + bytes(3),
        bytes(encode_varint(6)) + b"\x00\x00\x00\x03\x01\x00",
        bytes(encode_varint(6)) + b"\x00\x00\x00\x01\x03\x00",
        bytes(encode_varint(6)) + b"\x00\x00\x00\x01\x01\x01",
    ],
)
@pytest.mark.parametrize("together", [0, 10**9])
def test_malformed_records_are_left_to_the_protocol_s_decoder(
    body: bytes, together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "TOGETHER_MIN", together)
    good, bad = batch_of(PLAIN, 1), batch_of(body, 1)
    assert expected(bad) is None
    assert agree([good, bad, good]) == [True, False, True]


def test_offsets_must_ascend_within_a_batch() -> None:
    assert agree([batch_of(record(1) + record(1), 2), batch_of(record(1) + record(0), 2)]) == [False, False]
    assert agree([batch_of(record(0) + record(2), 2, last_delta=2), batch_of(record(3), 1, last_delta=2)]) == [
        True,
        False,
    ]


def test_unusual_numbers_are_left_to_the_protocol_s_decoder() -> None:
    """They are right, but nobody writes them."""
    long_zero = b"\x80\x80\x80\x80\x00"
    unusual = bytes(encode_varint(10)) + b"\x00\x00" + long_zero + b"\x01\x01\x00"
    far = record(0, time_ms=2**62)
    assert expected(batch_of(unusual, 1)) is not None
    assert expected(batch_of(far, 1)) is not None
    assert agree([batch_of(unusual, 1), batch_of(far, 1), batch_of(record(0, time_ms=-(2**40)), 1)]) == [
        False,
        False,
        True,
    ]


def test_headers_of_a_batch_are_bounded() -> None:
    few, many = (record(0, headers=[(b"", b"")] * count) for count in (3, HEADERS_EACH_MAX + 1))
    assert agree([batch_of(few, 1), batch_of(many, 1)]) == [True, False]
    count = HEADERS_MAX // HEADERS_EACH_MAX + 1
    too_many = b"".join(record(delta, headers=[(b"", b"")] * HEADERS_EACH_MAX) for delta in range(count))
    assert agree([batch_of(too_many, count), batch_of(few, 1)]) == [False, True]
    assert expected(batch_of(too_many, count)) is None


def test_cells_and_their_merger() -> None:
    data = b"abcdefgh"
    column = cells(data, np.array([0, 3, 3, 6]), np.array([2, -1, 0, 2]))
    assert column.to_pylist() == [b"ab", None, b"", b"gh"]
    assert cells(data, np.array([], dtype=np.int64), np.array([], dtype=np.int64)).to_pylist() == []
    other = pa.array([b"x", None], pa.binary())
    found = merged(
        [(np.array([0, 2, 3, 6]), column), (np.array([1, 5]), other), (np.array([], dtype=int), other)], 7, pa.binary()
    )
    found.validate(full=True)
    assert found.to_pylist() == [b"ab", b"x", None, b"", None, None, b"gh"]
    assert merged([(np.arange(4), column)], 4, pa.binary()) is column
    assert merged([], 2, pa.binary()).to_pylist() == [None, None]
