"""Finds and copies the values of many batches at once with numpy, without a Python loop over records.

All bytes of a KRaft record except its value follow from two numbers: the size of the value and the record's index in
the batch (`pykraft.protocol.values` has the layout). If all values of a batch have the same size, the position of every
record can be computed, and the bytes around all values can be compared in one operation:

1. Read the size of each batch's first value.
2. Group the batches by this size. Drop those that are not exactly as long as records of this size would be.
3. For each width of the offset delta (1 byte for indexes 0 to 63, 2 bytes to 8,191, ...) compute where records start.
4. Compare each byte before and after the values with the byte that belongs there.

Invariant: a batch counts as found only if every byte of it is as `encode_batch` writes it, so the result is what the
protocol's own decoder would read. The decoder handles all other batches. CRCs are not checked here.

Source: KIP-595; Kafka's ``BatchBuilder``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pykraft.errors import ProtocolError
from pykraft.protocol.batch import HEADER_SIZE_BYTES, BatchHeader
from pykraft.protocol.varint import encode_varint, read_varint, varint_size_bytes
from pykraft.types import Buffer

TOGETHER_MIN = 64
"""Below this many records of one size, comparing them one by one is faster."""
_DELTA_ENDS = (64, 8_192, 1_048_576, 134_217_728)
"""Offset deltas below these take 1, 2, 3, 4 bytes; no batch below 2 GiB holds more records than the last one."""
_BEFORE_DELTA = b"\x00\x00"
"""Attributes and timestamp delta."""
_NO_KEY = b"\x01"
_NO_HEADERS = 0
_WORD = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """Positions of values.

    ``are_found`` has an entry for each batch; ``starts`` and ``sizes`` (bytes) have one for each record of all batches,
    in order. The entries of a batch that was not found are meaningless.
    """

    starts: np.ndarray
    sizes: np.ndarray
    are_found: np.ndarray


def find_values(data: Buffer, batches: Sequence[tuple[int, BatchHeader]]) -> Values:
    """The values of the batches whose values have one size and which are encoded as KRaft does.

    ``batches`` are positions and headers of whole batches in ``data``, each header checked against its length.
    """
    counts = np.array([header.records_count for _, header in batches], dtype=np.int64)
    bodies = np.array([position + HEADER_SIZE_BYTES for position, _ in batches], dtype=np.int64)
    bodies_size_bytes = np.array([header.size_bytes - HEADER_SIZE_BYTES for _, header in batches], dtype=np.int64)
    # 1. Size of the first value; 0 leaves a batch to the decoder.
    first_sizes = np.array([_first_size(data, position, header) for position, header in batches], dtype=np.int64)
    first_rows = np.cumsum(counts) - counts
    rows_count = int(counts.sum())
    starts, are_found = np.zeros(rows_count, dtype=np.int64), np.zeros(len(batches), dtype=np.bool_)
    octets = np.frombuffer(data, dtype=np.uint8)
    for size in np.unique(first_sizes[first_sizes > 0]).tolist():
        # 2. Batches whose length fits records of this size.
        members = np.flatnonzero(first_sizes == size)
        members = members[bodies_size_bytes[members] == _bodies_size_bytes(counts[members], size)]
        if counts[members].sum() < TOGETHER_MIN:
            continue
        is_right = np.ones(len(members), dtype=np.bool_)
        # 3. and 4. for each width of the offset delta.
        for run in _runs(bodies[members], counts[members], size):
            which = np.repeat(np.arange(len(members)), run.counts)
            places = np.arange(len(which)) - np.repeat(np.cumsum(run.counts) - run.counts, run.counts)
            records = run.begins[which] + places * run.record_size_bytes
            as_written = _are_as_written(octets, records, places + run.first_delta, run)
            is_right[which[~as_written]] = False
            starts[first_rows[members][which] + run.first_delta + places] = records + run.head_size_bytes
        are_found[members] = is_right
    return Values(starts=starts, sizes=np.repeat(first_sizes, counts), are_found=are_found)


def _first_size(data: Buffer, position: int, header: BatchHeader) -> int:
    """Size of a batch's first value; 0 for a batch that cannot be found here."""
    count = header.records_count
    if header.attributes != 0 or count == 0 or count != header.last_offset_delta + 1:
        return 0
    try:
        _, at = read_varint(data, position + HEADER_SIZE_BYTES)
        size, _ = read_varint(data, at + len(_BEFORE_DELTA) + 1 + len(_NO_KEY))
    except ProtocolError:
        return 0
    return max(0, size)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """The part of each batch whose offset deltas have the same width, so that its records have one size."""

    value_size_bytes: int
    first_delta: int
    begins: np.ndarray
    counts: np.ndarray

    @property
    def delta_size_bytes(self) -> int:
        return varint_size_bytes(self.first_delta)

    @property
    def length(self) -> bytes:
        """The field in front of each record."""
        return encode_varint(_rest_size_bytes(self.delta_size_bytes, self.value_size_bytes))

    @property
    def head_size_bytes(self) -> int:
        """From the start of a record to its value."""
        return self.record_size_bytes - self.value_size_bytes - 1

    @property
    def record_size_bytes(self) -> int:
        return _record_size_bytes(self.delta_size_bytes, self.value_size_bytes)


def _runs(bodies: np.ndarray, counts: np.ndarray, size: int) -> Iterator[_Run]:
    first_delta, begins = 0, bodies
    for end_delta in _DELTA_ENDS:
        run = _Run(
            value_size_bytes=size,
            first_delta=first_delta,
            begins=begins,
            counts=np.clip(counts, first_delta, end_delta) - first_delta,
        )
        if not run.counts.any():
            return
        yield run
        begins = begins + run.counts * run.record_size_bytes
        first_delta = end_delta


def _bodies_size_bytes(counts: np.ndarray, size: int) -> np.ndarray:
    """The size of this many records with values of this size."""
    total = np.zeros_like(counts)
    first_delta = 0
    for width, end_delta in enumerate(_DELTA_ENDS, start=1):
        total += (np.clip(counts, first_delta, end_delta) - first_delta) * _record_size_bytes(width, size)
        first_delta = end_delta
    return total


def _rest_size_bytes(delta_size_bytes: int, value_size_bytes: int) -> int:
    around = len(_BEFORE_DELTA) + delta_size_bytes + len(_NO_KEY) + 1
    return around + varint_size_bytes(value_size_bytes) + value_size_bytes


def _record_size_bytes(delta_size_bytes: int, value_size_bytes: int) -> int:
    rest_size_bytes = _rest_size_bytes(delta_size_bytes, value_size_bytes)
    return varint_size_bytes(rest_size_bytes) + rest_size_bytes


def _are_as_written(octets: np.ndarray, records: np.ndarray, deltas: np.ndarray, run: _Run) -> np.ndarray:
    """For each record of a run: whether every byte around its value is as `encode_batch` writes it.

    The bytes before the value are compared eight at a time: to read an unaligned number costs no more than a byte.
    """
    are_right = octets[records + run.record_size_bytes - 1] == _NO_HEADERS
    before = run.length + _BEFORE_DELTA
    template = before + bytes(run.delta_size_bytes) + _NO_KEY + encode_varint(run.value_size_bytes)
    written = _encoded(deltas, run.delta_size_bytes)
    words = np.ndarray(len(octets) - _WORD + 1, dtype="<u8", buffer=octets, strides=(1,))
    # The last word overlaps the one before. Of a head shorter than a word, it has bytes of the value, too.
    for at in sorted({*range(0, len(template) - _WORD, _WORD), max(0, len(template) - _WORD)}):
        part = template[at : at + _WORD]
        mask = int.from_bytes(b"\xff" * len(part), "little")
        shift = 8 * (len(before) - at)
        expected = (written << shift if shift >= 0 else written >> -shift) if -64 < shift < 64 else written * 0
        expected = (expected | int.from_bytes(part, "little")) & mask
        are_right &= (words[records + at] & np.uint64(mask)) == expected
    return are_right


def _encoded(deltas: np.ndarray, size_bytes: int) -> np.ndarray:
    """The varints of these deltas, which all take so many bytes, as little-endian numbers."""
    zigzag = deltas.astype(np.uint64) << np.uint64(1)
    written = np.zeros_like(zigzag)
    for index in range(size_bytes):
        more = 0x80 if index + 1 < size_bytes else 0
        written |= ((zigzag >> np.uint64(7 * index)) & np.uint64(0x7F) | np.uint64(more)) << np.uint64(8 * index)
    return written


def gather_values(data: Buffer, found: Values, are_found: np.ndarray, others: Sequence[bytes | None]) -> pa.BinaryArray:
    """One column of the values found in place (``are_found``, by row) and of the others, in their order."""
    rows = np.flatnonzero(are_found)
    rest = pa.array(others, pa.binary())
    if len(rows) == 0:
        return rest
    values = _of_one_size(data, found) if not others else None
    if values is not None:
        return values
    edges = np.empty(2 * len(rows), dtype=np.int32)
    edges[0::2] = found.starts[rows]
    edges[1::2] = edges[0::2] + found.sizes[rows]
    # The cells of this column alternate between values and the bytes between them; take every second one.
    cells = pa.Array.from_buffers(pa.binary(), len(edges) - 1, [None, pa.py_buffer(edges), pa.py_buffer(data)])
    values = cells.take(pa.array(np.arange(0, len(edges) - 1, 2)))
    if not others:
        return values
    order = np.empty(len(are_found), dtype=np.int64)
    order[rows] = np.arange(len(rows))
    order[~are_found] = np.arange(len(rows), len(are_found))
    return pa.concat_arrays([values, rest]).take(pa.array(order))


def _of_one_size(data: Buffer, found: Values) -> pa.BinaryArray | None:
    """The column if all values have one size: each is an element of an array of such elements. Else None."""
    size, count = int(found.sizes[0]), len(found.sizes)
    if (found.sizes != size).any():
        return None
    elements = np.ndarray(len(data) - size + 1, dtype=f"V{size}", buffer=data, strides=(1,))
    edges = np.arange(count + 1, dtype=np.int32) * np.int32(size)
    values = elements[found.starts]
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(edges), pa.py_buffer(values.view(np.uint8))])
