"""Finds and copies the values of many batches at once with numpy, without a Python loop over records.

If all values of a batch have the same size, the position of every record can be computed, and the bytes around all
values can be compared in one operation (`pykraft.spark.data_source.record_layout`):

1. Read the size of the first value; batches of as many records and bytes have one, or are something else.
2. Group the batches by this size. Drop those that are not exactly as long as records of this size would be.
3. Where neighbors have as many records, compare them as blocks (`pykraft.spark.data_source.blocks`). Otherwise compute
   where each record starts,
4. and compare each byte before and after the values with the byte that belongs there.

Invariant: a batch counts as found only if every byte of it is as `encode_batch` writes it, so the result is what the
protocol's own decoder would read. The decoder handles all other batches. CRCs are not checked here.

Source: KIP-595; Kafka's ``BatchBuilder``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa

from pykraft.errors import ProtocolError
from pykraft.protocol.batch import HEADER_SIZE_BYTES
from pykraft.protocol.varint import read_varint
from pykraft.spark.arrow_columns import array_column, bytes_column
from pykraft.spark.data_source.blocks import Block, blocks_of
from pykraft.spark.data_source.headers.columns import Headers
from pykraft.spark.data_source.record_layout import (
    BEFORE_DELTA,
    NO_HEADERS,
    NO_KEY,
    WORD,
    Stretch,
    bodies_size_bytes,
    stretches,
)
from pykraft.types import Buffer

TOGETHER_MIN = 64
"""Below this many records of one size, comparing them one by one is faster."""
BLOCK_MIN = 64
"""Below this many records in a block, on average, computing positions is faster."""


class Values:
    """Positions of values.

    ``are_found`` has an entry for each batch; ``starts`` and ``sizes`` (bytes) have one for each record of all batches,
    in order. The entries of a batch that was not found are meaningless.
    """

    def __init__(self, counts: np.ndarray, first_sizes: np.ndarray) -> None:
        self._counts = counts
        self._first_sizes = first_sizes
        self._first_rows = np.cumsum(counts) - counts
        self._scattered: list[tuple[np.ndarray, np.ndarray]] = []
        self.blocks: list[Block] = []
        self.are_found = np.zeros(len(counts), dtype=np.bool_)

    @cached_property
    def starts(self) -> np.ndarray:
        """See the class."""
        starts = np.zeros(int(self._counts.sum()), dtype=np.int64)
        for block in self.blocks:
            first_row = self._first_rows[block.first]
            starts[first_row : first_row + block.batches * block.records] = block.starts()
        for rows, positions in self._scattered:
            starts[rows] = positions
        return starts

    @cached_property
    def sizes(self) -> np.ndarray:
        """See the class."""
        return np.repeat(self._first_sizes, self._counts)

    def one_size_bytes(self) -> int | None:
        """The size of all values, if it is one and blocks have all of them."""
        is_one = len(self._first_sizes) > 0 and not self._scattered and bool(self.are_found.all())
        return int(self._first_sizes[0]) if is_one and len(set(self._first_sizes.tolist())) == 1 else None

    def compare(self, data: Buffer, members: np.ndarray, bodies: np.ndarray) -> None:
        """Look at these batches, whose first values have one size and whose first records are at ``bodies``."""
        size = int(self._first_sizes[members[0]])
        counts = self._counts[members]
        blocks = blocks_of(members, bodies, counts, size)
        if counts.sum() >= BLOCK_MIN * len(blocks):
            self.blocks += blocks
            for block in blocks:
                self.are_found[block.first : block.first + block.batches] = block.are_as_written(data)
            return
        octets = np.frombuffer(data, dtype=np.uint8)
        are_right = np.ones(len(members), dtype=np.bool_)
        for stretch in stretches(int(counts.max()), size):
            own = np.clip(counts, stretch.first_delta, stretch.end_delta) - stretch.first_delta
            which = np.repeat(np.arange(len(members)), own)
            places = np.arange(len(which)) - np.repeat(np.cumsum(own) - own, own)
            records = bodies[which] + stretch.begin + places * stretch.record_size_bytes
            deltas = places + stretch.first_delta
            are_right[which[~_are_as_written(octets, records, deltas, stretch)]] = False
            self._scattered.append((self._first_rows[members][which] + deltas, records + stretch.head_size_bytes))
        self.are_found[members] = are_right


def find_values(data: Buffer, headers: Headers) -> Values:
    """The values of the batches of ``data`` whose values have one size and which are encoded as KRaft does."""
    counts = headers.counts
    bodies = headers.positions + HEADER_SIZE_BYTES
    sizes = headers.sizes_bytes - HEADER_SIZE_BYTES
    # 1. Size of the first value; 0 leaves a batch to the decoder.
    are_plain = (headers.column("attributes") == 0) & (counts > 0) & ~headers.are_compacted
    first_sizes = _first_sizes(data, are_plain, bodies, counts, sizes)
    found = Values(counts, first_sizes)
    for size in np.unique(first_sizes[first_sizes > 0]).tolist():
        # 2. Batches whose length fits records of this size.
        members = np.flatnonzero(first_sizes == size)
        members = members[sizes[members] == bodies_size_bytes(counts[members], size)]
        # 3. and 4.
        if counts[members].sum() >= TOGETHER_MIN:
            found.compare(data, members, bodies[members])
    return found


def _first_sizes(
    data: Buffer, are_plain: np.ndarray, bodies: np.ndarray, counts: np.ndarray, sizes: np.ndarray
) -> np.ndarray:
    """Size of the first value of each plain batch, and 0 for all others.

    Batches with as many records and bytes get the same one: values of one size can have no other, and what is
    something else is no value that is found.
    """
    first_sizes = np.zeros(len(bodies), dtype=np.int64)
    known: dict[tuple[int, int], int] = {}
    for index in np.flatnonzero(are_plain).tolist():
        kind = int(counts[index]), int(sizes[index])
        size = known.get(kind)
        if size is None:
            size = known[kind] = _first_size(data, int(bodies[index]))
        first_sizes[index] = size
    return first_sizes


def _first_size(data: Buffer, body: int) -> int:
    """Size of the first value of the batch whose records begin there; 0 if it has none."""
    try:
        _, at = read_varint(data, body)
        size, _ = read_varint(data, at + len(BEFORE_DELTA) + 1 + len(NO_KEY))
    except ProtocolError:
        return 0
    return max(0, size)


def _are_as_written(octets: np.ndarray, records: np.ndarray, deltas: np.ndarray, stretch: Stretch) -> np.ndarray:
    """For each record at these positions: whether every byte around its value is as `encode_batch` writes it.

    The bytes before the value are compared eight at a time: to read an unaligned number costs no more than a byte.
    """
    are_right = octets[records + stretch.record_size_bytes - 1] == NO_HEADERS
    words = np.ndarray(len(octets) - WORD + 1, dtype="<u8", buffer=octets, strides=(1,))
    for at, mask, expected in stretch.head_words(deltas):
        are_right &= (words[records + at] & np.uint64(mask)) == expected
    return are_right


def gather_values(data: Buffer, found: Values, are_found: np.ndarray, others: Sequence[bytes | None]) -> pa.BinaryArray:
    """One column of the values found in place (``are_found``, by row) and of the others, in their order."""
    rows = np.flatnonzero(are_found)
    rest = bytes_column(others)
    if len(rows) == 0:
        return rest
    size = found.one_size_bytes()
    if size is not None:
        return _of_one_size(data, found, size, len(rows))
    edges = np.empty(2 * len(rows), dtype=np.int32)
    edges[0::2] = found.starts[rows]
    edges[1::2] = edges[0::2] + found.sizes[rows]
    # The cells of this column alternate between values and the bytes between them; take every second one.
    cells = pa.Array.from_buffers(pa.binary(), len(edges) - 1, [None, pa.py_buffer(edges), pa.py_buffer(data)])
    values = cells.take(array_column(np.arange(0, len(edges) - 1, 2), pa.int64()))
    if not others:
        return values
    order = np.empty(len(are_found), dtype=np.int64)
    order[rows] = np.arange(len(rows))
    order[~are_found] = np.arange(len(rows), len(are_found))
    return pa.concat_arrays([values, rest]).take(array_column(order, pa.int64()))


def _of_one_size(data: Buffer, found: Values, size: int, count: int) -> pa.BinaryArray:
    """The column if all values have one size and lie in blocks."""
    # From Arrow's pool: it keeps the pages of freed columns, which the C library gives back to the system each time.
    held = pa.allocate_buffer(count * size)
    values = np.frombuffer(held, dtype=f"V{size}")
    row = 0
    for block in found.blocks:
        end_row = row + block.batches * block.records
        block.copy_values(data, values[row:end_row])
        row = end_row
    edges = np.arange(count + 1, dtype=np.int32) * np.int32(size)
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(edges), held])
