"""Record headers are bounded: a batch below a kilobyte may expand to millions of them, and KRaft writes none.

Source: ours; KIP-82 sets no bound.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pykraft.errors import ErrorCode, ProtocolError
from pykraft.protocol.compression import Compression
from pykraft.protocol.records import HEADERS_MAX, decode_control, decode_records
from tests.memory import taking_less_than
from tests.protocol.test_compression import compress
from tests.protocol.test_records import record, resealed, seal

IS_CONTROL = 0x20
"""In a batch's attributes."""
HEADER = b"\x00\x01"
"""The smallest one: no name, no value."""


def batch_of_headers(count: int, *, attributes: int) -> bytes:
    """One record, compressed, whose key and value are those of a LeaderChange, so that only the headers are unusual."""
    key, value = b"\x00\x00\x00\x02", bytes(8)
    whole = record(b"\x00", 0, 0, len(key), key, len(value), value, count, HEADER * count)
    return resealed(seal(b"?"), attributes=attributes, body=compress(Compression.ZSTD, whole))


@pytest.mark.parametrize(
    ("decode", "attributes"),
    [(decode_control, IS_CONTROL | Compression.ZSTD), (decode_records, Compression.ZSTD)],
)
def test_a_small_batch_of_headers_takes_little_memory(decode: Callable[[bytes], object], attributes: int) -> None:
    """Four million headers took 319 MiB and 3.4 s."""
    batch = batch_of_headers(4_000_000, attributes=attributes)
    assert len(batch) < 1_010

    def refuse() -> None:
        with pytest.raises(ProtocolError) as caught:
            decode(batch)
        assert caught.value.code is ErrorCode.INVALID_RECORD

    taking_less_than(50_000_000, refuse)  # the expanded bytes, a few times


def test_headers_are_bounded_for_the_whole_batch() -> None:
    most = record(b"\x00", 0, 0, -1, 3, b"abc", HEADERS_MAX, HEADER * HEADERS_MAX)
    [found] = decode_records(seal(most))
    assert len(found.headers) == HEADERS_MAX
    one_more = record(b"\x00", 0, 1, -1, 3, b"abc", 1, HEADER)
    with pytest.raises(ProtocolError, match=f"record 1 of the batch has 1 headers, 0 of {HEADERS_MAX} for a batch"):
        decode_records(seal(most, one_more))
