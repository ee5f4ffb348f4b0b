"""KRaft's data batches: values and nothing else. This is the hot path of appends and reads.

A record is (all integers zigzag varints):

    length of rest | attributes 0 | timestamp delta 0 | offset delta | key length -1 | value length | value | headers 0
      1-5 bytes      1 byte         1                   1-5            1               1-5                    1

So two numbers decide all bytes around a value: its size and its place in the batch. Encoding is a look-up and one
``join`` for the whole batch. If all values have one size, the bytes before each value come from a table (`_Heads`), and
no Python code runs for a single record. Decoding assumes that all values have the size of the first: it cuts the batch
into equal pieces, encodes them again, and is done if the bytes are the same. Otherwise it reads record by record, which
also finds out what is wrong.

Places whose offset deltas take the same number of bytes form a *run*: within a run, records with values of one size
have the same size. The bytes from attributes to key length depend only on the place; they are cached for the first
65,536 places.

Source: KIP-595; Kafka's ``BatchBuilder`` (what is written) and ``RecordsIterator`` (what is refused when read).
"""

import struct
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from itertools import chain
from typing import Final

from pykraft.errors import ErrorCode, ProtocolError, UsageError
from pykraft.protocol.batch import (
    HEADER_SIZE_BYTES,
    ROOM_FOR_HEADER,
    BatchHeader,
    EncodedBatch,
    open_batch,
    seal_in_place,
)
from pykraft.protocol.primitives import encode_varint, read_varint, read_varlong, varint_size_bytes
from pykraft.types import Buffer, Epoch, Offset

KEPT_PLACES_MAX: Final = 65_536
"""Places whose bytes are cached, about 3 MiB; a longer batch computes the rest each time."""

HEADS_SIZES_MAX: Final = 4
"""Value sizes whose heads are cached, each at most 4 MiB."""
HEADS_MIN: Final = 64
"""Heads that are made at a time at least."""

_RUN_ENDS: Final = (64, 1_024, 8_192, 16_384, 32_768, KEPT_PLACES_MAX, 1_048_576, 134_217_728, 2**31)
"""Where the varint of an offset delta gets longer (64, 8,192, 1,048,576, ...), and steps of the cache."""
_NO_HEADERS: Final = b"\x00"


def encode_batch(values: Sequence[bytes], *, base_offset: Offset, epoch: Epoch, timestamp_ms: int) -> EncodedBatch:
    """One data batch with these values, from ``base_offset`` on.

    Units: timestamp_ms is wall time of the append.
    Errors: UsageError when there are no values or one of them is empty (KRaft's readers refuse it).
    """
    header, batch = encode_in_place(values, base_offset=base_offset, epoch=epoch, timestamp_ms=timestamp_ms)
    return EncodedBatch(header, bytes(batch))


def encode_in_place(
    values: Sequence[bytes], *, base_offset: Offset, epoch: Epoch, timestamp_ms: int
) -> tuple[BatchHeader, Buffer]:
    """The batch of `encode_batch` where it was made, which saves a copy; nobody may change it."""
    if not values:
        raise UsageError("a batch needs at least one value")
    batch = bytearray().join(_pieces(values, ROOM_FOR_HEADER))
    header = seal_in_place(batch, count=len(values), base_offset=base_offset, epoch=epoch, timestamp_ms=timestamp_ms)
    return header, memoryview(batch).toreadonly()


def batch_size_bytes(values: Sequence[bytes]) -> int:
    """Exact size of the batch that `encode_batch` makes from these values."""
    return HEADER_SIZE_BYTES + records_size_bytes(values)


def records_size_bytes(values: Sequence[bytes], *, first_delta: int = 0) -> int:
    """Exact size of these records without a header, if the first has this offset delta.

    An open batch grows by this when the values are appended to it.
    """
    if len(values) == 1:  # what a single caller proposes
        return _record_size_bytes(first_delta, len(values[0]))
    sizes_met = set(map(len, values))
    if len(sizes_met) == 1:
        (size,) = sizes_met
        runs = _runs(first_delta, first_delta + len(values))
        return sum((end - start) * _record_size_bytes(start, size) for start, end in runs)
    size_bytes = 0
    for start, end in _runs(first_delta, first_delta + len(values)):
        sizes = Counter(map(len, values[start - first_delta : end - first_delta]))
        size_bytes += sum(count * _record_size_bytes(start, size) for size, count in sizes.items())
    return size_bytes


def decode_values(batch: Buffer, *, verify_crc: bool = True) -> list[bytes]:
    """The values of one data batch; the value at index i has offset ``base_offset + i``.

    Errors: those of `open_batch` (header, CRC, codec); INVALID_RECORD for a control batch, and for a record that KRaft
    does not write: with a key, a header or its own time, an empty or missing value, a gap in the offsets.
    """
    header, body = open_batch(batch, verify_crc=verify_crc)
    if header.is_control:
        raise ProtocolError("a control batch holds no values", ErrorCode.INVALID_RECORD)
    if header.records_count != header.last_offset_delta + 1:
        raise ProtocolError(
            f"the batch has {header.records_count} records for {header.last_offset_delta + 1} offsets",
            ErrorCode.INVALID_RECORD,
        )
    values = _decode_equal_sizes(body, header.records_count)
    return _decode_each(body, header.records_count) if values is None else values


def _runs(start: int, end: int) -> Iterator[tuple[int, int]]:
    """Split offset deltas ``start`` to ``end`` (exclusive) at the ends of runs."""
    while start < end:
        run_end = min(end, _RUN_ENDS[bisect_right(_RUN_ENDS, start)])
        yield start, run_end
        start = run_end


def _place(delta: int) -> bytes:
    """The bytes between a record's length and its value's length: attributes, times, offset delta, no key."""
    return b"\x00\x00" + encode_varint(delta) + b"\x01"


@cache
def _kept_places(run_start: int, run_end: int) -> list[bytes]:
    return list(map(_place, range(run_start, run_end)))


def _places(start: int, end: int) -> list[bytes]:
    """`_place` of each offset delta in a run, or in a part of one."""
    if end > KEPT_PLACES_MAX:
        return list(map(_place, range(start, end)))
    run = bisect_right(_RUN_ENDS, start)
    run_start = _RUN_ENDS[run - 1] if run else 0
    return _kept_places(run_start, _RUN_ENDS[run])[start - run_start : end - run_start]


def _rest_size_bytes(delta: int, value_size_bytes: int) -> int:
    """The value of a record's length field: the bytes after it."""
    return 4 + varint_size_bytes(delta) + varint_size_bytes(value_size_bytes) + value_size_bytes


def _record_size_bytes(delta: int, value_size_bytes: int) -> int:
    rest_size_bytes = _rest_size_bytes(delta, value_size_bytes)
    return varint_size_bytes(rest_size_bytes) + rest_size_bytes


class _Heads:
    """For values of one size: the bytes between a value and the next one, by the offset delta of the second.

    They are the zero that ends a record (no headers), then the next record's length, place and length of its value.
    """

    def __init__(self, value_size_bytes: int) -> None:
        self._size_bytes = value_size_bytes
        self._heads: list[bytes] = []

    def __len__(self) -> int:
        return len(self._heads)

    def first(self, count: int) -> list[bytes]:
        """The heads of the offset deltas 0 to ``count``, exclusive."""
        heads = self._heads
        while len(heads) < count:
            start, end = next(_runs(len(heads), KEPT_PLACES_MAX))
            # At most twice as many as before: a batch of a few values should not pay for thousands.
            end = min(end, max(2 * start, HEADS_MIN))
            length = _NO_HEADERS + encode_varint(_rest_size_bytes(start, self._size_bytes))
            value_length = encode_varint(self._size_bytes)
            # Replace the list: another thread may be using the former one.
            heads = self._heads = heads + [length + place + value_length for place in _places(start, end)]
        return heads[:count]


@lru_cache(HEADS_SIZES_MAX)
def _heads_of(value_size_bytes: int) -> _Heads:
    return _Heads(value_size_bytes)


def _pieces(values: Sequence[bytes], before: bytes = b"") -> list[bytes]:
    """The records in pieces to be joined, after ``before``. Errors: UsageError for an empty value."""
    sizes = set(map(len, values))
    if 0 in sizes:
        at = list(map(len, values)).index(0)
        raise UsageError(f"value {at} of the batch is empty; a value needs at least one byte")
    if len(sizes) == 1 and len(values) <= KEPT_PLACES_MAX:
        pieces = _pieces_of_equal_size(values, sizes.pop())
    else:
        pieces = _pieces_of_any_size(values)
    pieces[0] = before + pieces[0][len(_NO_HEADERS) :]
    pieces.append(_NO_HEADERS)
    return pieces


def _pieces_of_equal_size(values: Sequence[bytes], value_size_bytes: int) -> list[bytes]:
    pieces = [b""] * (2 * len(values))
    pieces[0::2] = _heads_of(value_size_bytes).first(len(values))
    pieces[1::2] = values
    return pieces


def _pieces_of_any_size(values: Sequence[bytes]) -> list[bytes]:
    pieces: list[bytes] = []
    for start, end in _runs(0, len(values)):
        chunk = values[start:end]
        sizes = list(map(len, chunk))
        # The zero that ends a record (no headers) is joined to the length of the next one: one piece less.
        lengths = {size: _NO_HEADERS + encode_varint(_rest_size_bytes(start, size)) for size in set(sizes)}
        value_lengths = {size: encode_varint(size) for size in lengths}
        run = [b""] * (4 * len(chunk))
        run[0::4] = [lengths[size] for size in sizes]
        run[1::4] = _places(start, end)
        run[2::4] = [value_lengths[size] for size in sizes]
        run[3::4] = chunk
        pieces += run
    return pieces


def _decode_equal_sizes(body: bytes, count: int) -> list[bytes] | None:
    """The values if all have the size of the first and every byte is as we would write it, else None."""
    _, position = read_varint(body, 0)
    size, _ = read_varint(body, position + len(_place(0)))
    runs = [(end - start, _record_size_bytes(start, size)) for start, end in _runs(0, count)] if size > 0 else []
    if sum(places * record_size_bytes for places, record_size_bytes in runs) != len(body):
        return None
    values: list[bytes] = []
    rest = memoryview(body)
    for places, record_size_bytes in runs:
        run, rest = rest[: places * record_size_bytes], rest[places * record_size_bytes :]
        values.extend(chain.from_iterable(struct.iter_unpack(f"{record_size_bytes - size - 1}x{size}sx", run)))
    return values if b"".join(_pieces(values)) == body else None


def _decode_each(body: bytes, count: int) -> list[bytes]:
    values: list[bytes] = []
    position = 0
    for start, end in _runs(0, count):
        for delta, place in enumerate(_places(start, end), start):
            rest_size_bytes, rest = read_varint(body, position)
            position = rest + rest_size_bytes
            if rest_size_bytes <= 0 or position > len(body):
                raise _bad(delta, f"has length {rest_size_bytes}, {len(body) - rest} bytes are left")
            rest = rest + len(place) if body.startswith(place, rest) else _read_place(body, rest, delta)
            size, rest = read_varint(body, rest)
            if size <= 0 or rest + size != position - 1:
                raise _bad(delta, f"has a value of {size} bytes, which should end in byte {position - 1 - rest} of it")
            if body[position - 1] != 0:
                raise _bad(delta, "has headers")
            values.append(body[rest : position - 1])
    if position != len(body):
        raise ProtocolError(f"{len(body) - position} bytes follow the last record", ErrorCode.INVALID_RECORD)
    return values


def _read_place(body: bytes, position: int, delta: int) -> int:
    """Read bytes that differ from `_place`: raise what is wrong, or accept another valid encoding."""
    timestamp_delta, position = read_varlong(body, position + 1)
    if timestamp_delta != 0:
        raise _bad(delta, f"has timestamp delta {timestamp_delta}")
    offset_delta, position = read_varint(body, position)
    if offset_delta != delta:
        raise _bad(delta, f"has offset delta {offset_delta}")
    key_size_bytes, position = read_varint(body, position)
    if key_size_bytes != -1:
        raise _bad(delta, f"has a key of {key_size_bytes} bytes")
    return position


def _bad(delta: int, problem: str) -> ProtocolError:
    return ProtocolError(f"record {delta} of the batch {problem}", ErrorCode.INVALID_RECORD)
