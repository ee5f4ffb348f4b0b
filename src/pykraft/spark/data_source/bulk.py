"""Finds and copies the values of many batches at once with numpy, without a Python loop over records.

All bytes of a KRaft record except its value follow from two numbers: the size of the value and the record's index in
the batch, its offset delta (`pykraft.protocol.values` has the layout). Records whose deltas take the same number of
bytes (1 for indexes 0 to 63, 2 to 8,191, ...) have one size; such a part of a batch is a `Stretch`. So if all values of
a batch have one size, the position of every record can be computed, and the bytes around all values compared at once:

1. Read the size of the first value of each batch.
2. Drop those that are not exactly as long as records of this size would be, and group the others by this size.
3. Where neighbors have as many records, compare them as a `Block`: each byte of a record lies at a fixed distance from
   that of the record before, and from that of the batch before. NumPy reads such an array of two dimensions in a fifth
   of the time that computing positions takes. Otherwise compute where each record starts,
4. and compare each byte before and after the values with the byte that belongs there.

Invariant: a batch counts as found only if every byte of it is as `encode_batch` writes it, so the result is what the
protocol's own decoder would read. The decoder handles all other batches. CRCs are not checked here.

Source: KIP-98, KIP-595; Kafka's ``DefaultRecord`` and ``BatchBuilder``; NumPy's strided arrays.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import pyarrow as pa

from pykraft.protocol.batch import HEADER_SIZE_BYTES
from pykraft.protocol.primitives import encode_varint, varint_size_bytes
from pykraft.spark.data_source.headers import Headers
from pykraft.spark.data_source.records import FieldReader, cells
from pykraft.types import Buffer

_DELTA_ENDS = (64, 8_192, 1_048_576, 134_217_728)
"""Offset deltas below these take 1, 2, 3, 4 bytes; no batch below 2 GiB holds more records than the last one."""
BEFORE_DELTA = b"\x00\x00"
"""Attributes and timestamp delta."""
NO_KEY = b"\x01"
NO_HEADERS = 0
AROUND_SIZE_BYTES = len(BEFORE_DELTA) + len(NO_KEY) + 1
"""Of the fields that are the same in all records."""
WORD = 8


TOGETHER_MIN = 64
"""Below this many records of one size, comparing them one by one is faster."""
BLOCK_MIN = 64
"""Below this many records in a block, on average, computing positions is faster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """The records of a batch from ``first_delta`` to ``end_delta`` (exclusive), which all have one size.

    ``begin`` is the distance in bytes from the first record of the batch.
    """

    value_size_bytes: int
    first_delta: int
    end_delta: int
    begin: int

    @property
    def delta_size_bytes(self) -> int:
        """How many bytes an offset delta takes."""
        return varint_size_bytes(self.first_delta)

    @property
    def record_size_bytes(self) -> int:
        return _record_size_bytes(self.delta_size_bytes, self.value_size_bytes)

    @property
    def head_size_bytes(self) -> int:
        """From the start of a record to its value; after the value stands only the count of headers."""
        return self.record_size_bytes - self.value_size_bytes - 1

    def head_words(self, deltas: np.ndarray) -> Iterator[tuple[int, int, np.ndarray]]:
        """The bytes before the values of records with these deltas, as little-endian words of eight bytes.

        Yields the distance of a word from the record's start, the mask of its bytes that count, and the words. The last
        word overlaps the one before; of a head shorter than a word, it has bytes of the value, too.
        """
        length = encode_varint(_rest_size_bytes(self.delta_size_bytes, self.value_size_bytes))
        before = length + BEFORE_DELTA
        template = before + bytes(self.delta_size_bytes) + NO_KEY + encode_varint(self.value_size_bytes)
        written = _encoded(deltas, self.delta_size_bytes)
        for at in sorted({*range(0, len(template) - WORD, WORD), max(0, len(template) - WORD)}):
            part = template[at : at + WORD]
            mask = int.from_bytes(b"\xff" * len(part), "little")
            shift = 8 * (len(before) - at)
            words = (written << shift if shift >= 0 else written >> -shift) if -64 < shift < 64 else written * 0
            yield at, mask, (words | int.from_bytes(part, "little")) & mask


def stretches(records: int, value_size_bytes: int) -> Iterator[Stretch]:
    first_delta, begin = 0, 0
    for end_delta in _DELTA_ENDS:
        if first_delta >= records:
            return
        one = Stretch(
            value_size_bytes=value_size_bytes, first_delta=first_delta, end_delta=min(end_delta, records), begin=begin
        )
        yield one
        begin += (end_delta - first_delta) * one.record_size_bytes
        first_delta = end_delta


def bodies_size_bytes(counts: np.ndarray, value_sizes_bytes: np.ndarray) -> np.ndarray:
    """The sizes of batches of so many records with values of these sizes, without the headers of the batches."""
    total = np.zeros_like(counts)
    rests = AROUND_SIZE_BYTES + _varint_sizes_bytes(value_sizes_bytes) + value_sizes_bytes
    first_delta, most = 0, counts.max(initial=0)
    for width, end_delta in enumerate(_DELTA_ENDS, start=1):
        if most <= first_delta:
            break
        sizes = _varint_sizes_bytes(rests + width) + rests + width
        total += (np.clip(counts, first_delta, end_delta) - first_delta) * sizes
        first_delta = end_delta
    return total


def _varint_sizes_bytes(values: np.ndarray) -> np.ndarray:
    """As `varint_size_bytes`, of numbers that are not negative."""
    return np.searchsorted(_DELTA_ENDS, values, side="right") + 1


def _rest_size_bytes(delta_size_bytes: int, value_size_bytes: int) -> int:
    return AROUND_SIZE_BYTES + delta_size_bytes + varint_size_bytes(value_size_bytes) + value_size_bytes


def _record_size_bytes(delta_size_bytes: int, value_size_bytes: int) -> int:
    rest_size_bytes = _rest_size_bytes(delta_size_bytes, value_size_bytes)
    return varint_size_bytes(rest_size_bytes) + rest_size_bytes


def _encoded(deltas: np.ndarray, size_bytes: int) -> np.ndarray:
    """The varints of these deltas, which all take so many bytes, as little-endian numbers."""
    zigzag = deltas.astype(np.uint64) << np.uint64(1)
    written = np.zeros_like(zigzag)
    for index in range(size_bytes):
        more = 0x80 if index + 1 < size_bytes else 0
        written |= ((zigzag >> np.uint64(7 * index)) & np.uint64(0x7F) | np.uint64(more)) << np.uint64(8 * index)
    return written


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Batches in a row: ``first`` is the index of the first one, ``body`` the position of its first record.

    Their bodies start ``distance`` bytes after each other, and each has ``records`` records with values of one size.
    """

    first: int
    batches: int
    body: int
    distance: int
    records: int
    value_size_bytes: int

    def are_as_written(self, data: Buffer) -> np.ndarray:
        """For each batch: whether every byte around its values is as `encode_batch` writes it."""
        are_right = np.ones(self.batches, dtype=np.bool_)
        for stretch in stretches(self.records, self.value_size_bytes):
            ends = self._view(data, stretch, stretch.record_size_bytes - 1, "u1")
            are_right &= (ends == NO_HEADERS).all(axis=1)
            for at, mask, words in stretch.head_words(np.arange(stretch.first_delta, stretch.end_delta)):
                found = self._view(data, stretch, at, "<u8")
                are_right &= ((found & np.uint64(mask)) == words).all(axis=1)
        return are_right

    def starts(self) -> np.ndarray:
        """The positions of all values, in order."""
        found = np.empty((self.batches, self.records), dtype=np.int64)
        bodies = self.body + np.arange(self.batches)[:, None] * self.distance
        for stretch in stretches(self.records, self.value_size_bytes):
            places = np.arange(stretch.end_delta - stretch.first_delta) * stretch.record_size_bytes
            own = bodies + stretch.begin + stretch.head_size_bytes + places
            found[:, stretch.first_delta : stretch.end_delta] = own
        return found.reshape(-1)

    def copy_values(self, data: Buffer, into: np.ndarray) -> None:
        """Write all values, in order, into an array with an element of their size for each."""
        rows = into.reshape(self.batches, self.records)
        for stretch in stretches(self.records, self.value_size_bytes):
            values = self._view(data, stretch, stretch.head_size_bytes, f"V{self.value_size_bytes}")
            rows[:, stretch.first_delta : stretch.end_delta] = values

    def _view(self, data: Buffer, stretch: Stretch, at: int, dtype: str) -> np.ndarray:
        return np.ndarray(
            (self.batches, stretch.end_delta - stretch.first_delta),
            dtype=dtype,
            buffer=data,
            offset=self.body + stretch.begin + at,
            strides=(self.distance, stretch.record_size_bytes),
        )


def blocks_of(members: np.ndarray, bodies: np.ndarray, counts: np.ndarray, value_size_bytes: int) -> list[Block]:
    """The blocks of these batches: indexes, positions of first records, and numbers of records, in order."""
    return [
        Block(
            first=int(members[begin]),
            batches=end - begin,
            body=int(bodies[begin]),
            distance=int(bodies[begin + 1] - bodies[begin]) if end - begin > 1 else 0,
            records=int(counts[begin]),
            value_size_bytes=value_size_bytes,
        )
        for begin, end in _alike(members, bodies, counts)
    ]


def _alike(members: np.ndarray, bodies: np.ndarray, counts: np.ndarray) -> Iterator[tuple[int, int]]:
    distances = np.diff(bodies)
    goes_on = (np.diff(members) == 1) & (np.diff(counts) == 0)
    # Batches of as many records of one size are as long: the distance differs only if something lies between them.
    goes_on[1:] &= ~goes_on[:-1] | (np.diff(distances) == 0)
    edges = [0, *(np.flatnonzero(~goes_on) + 1).tolist(), len(members)]
    yield from pairwise(edges)


class Values:
    """Positions of values.

    ``are_found`` has an entry for each batch; ``starts`` and ``sizes`` (bytes) have one for each record of all batches,
    in order. The entries of a batch that was not found are meaningless.
    """

    def __init__(self, counts: np.ndarray, first_sizes: np.ndarray) -> None:
        self.counts = counts
        self._first_sizes = first_sizes
        self._first_rows = np.cumsum(counts) - counts
        self._scattered: list[tuple[np.ndarray, np.ndarray]] = []
        self.blocks: list[Block] = []
        self.are_found = np.zeros(len(counts), dtype=np.bool_)

    @cached_property
    def starts(self) -> np.ndarray:
        """See the class."""
        starts = np.zeros(int(self.counts.sum()), dtype=np.int64)
        for block in self.blocks:
            first_row = self._first_rows[block.first]
            starts[first_row : first_row + block.batches * block.records] = block.starts()
        for rows, positions in self._scattered:
            starts[rows] = positions
        return starts

    @cached_property
    def sizes(self) -> np.ndarray:
        """See the class."""
        return np.repeat(self._first_sizes, self.counts)

    def one_size_bytes(self) -> int | None:
        """The size of all values, if it is one and blocks have all of them."""
        is_one = len(self._first_sizes) > 0 and not self._scattered and bool(self.are_found.all())
        return int(self._first_sizes[0]) if is_one and len(set(self._first_sizes.tolist())) == 1 else None

    def compare(self, data: Buffer, members: np.ndarray, bodies: np.ndarray) -> None:
        """Look at these batches, whose first values have one size and whose first records are at ``bodies``."""
        size = int(self._first_sizes[members[0]])
        counts = self.counts[members]
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
    # 1. Size of the first value, and 2. whether the length of the batch fits records of this size; 0 if it does not.
    first_sizes = _first_sizes(data, bodies)
    are_plain = (headers.column("attributes") == 0) & (counts > 0) & ~headers.are_compacted
    first_sizes *= are_plain & (bodies_size_bytes(counts, first_sizes) == sizes)
    found = Values(counts, first_sizes)
    kinds, which = np.unique(first_sizes, return_inverse=True)
    records = np.bincount(which, weights=counts)
    for size in kinds[(kinds > 0) & (records >= TOGETHER_MIN)].tolist():
        members = np.flatnonzero(first_sizes == size)
        # 3. and 4.
        found.compare(data, members, bodies[members])
    return found


def _first_sizes(data: Buffer, bodies: np.ndarray) -> np.ndarray:
    """Sizes of the first values of batches whose records begin there; 0 for none."""
    reader = FieldReader(np.frombuffer(data, dtype=np.uint8), bodies)
    reader.number()
    reader.skip(len(BEFORE_DELTA) + 1 + len(NO_KEY))
    sizes = reader.number()
    return np.where(reader.are_bad, 0, np.maximum(sizes, 0))


def _are_as_written(octets: np.ndarray, records: np.ndarray, deltas: np.ndarray, stretch: Stretch) -> np.ndarray:
    """For each record at these positions: whether every byte around its value is as `encode_batch` writes it.

    The bytes before the value are compared eight at a time: to read an unaligned number costs no more than a byte.
    """
    are_right = octets[records + stretch.record_size_bytes - 1] == NO_HEADERS
    words = np.ndarray(len(octets) - WORD + 1, dtype="<u8", buffer=octets, strides=(1,))
    for at, mask, expected in stretch.head_words(deltas):
        are_right &= (words[records + at] & np.uint64(mask)) == expected
    return are_right


def values_of(data: Buffer, found: Values) -> pa.BinaryArray:
    """One column of the values that were found in place, in their order."""
    rows = np.flatnonzero(np.repeat(found.are_found, found.counts))
    size = found.one_size_bytes()
    if size is not None:
        return _of_one_size(data, found, size, len(rows))
    return cells(data, found.starts[rows], found.sizes[rows])


def _of_one_size(data: Buffer, found: Values, size: int, count: int) -> pa.BinaryArray:
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
