"""Parses the records of any Kafka client in bulk: a Python loop over their lengths, and NumPy for all else.

Only the length of a record says where the next one starts, so the starts are found one after the other: batch by batch,
or, if there are many, for one record of each batch at a time. Every other field is read for all records at once: its
first byte by one gather, and more bytes where that byte says so.

Invariant: a batch counts as found only if the protocol's decoder would take it, and then the fields are those that it
reads. What is unusual is left to that decoder: numbers of more than four bytes (of time more than nine), very large
times, many headers, damage.

Source: KIP-98, KIP-82; Kafka's ``DefaultRecord`` and ``ByteUtils.readVarint``; `pykraft.protocol.records`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa

from pykraft.errors import ProtocolError
from pykraft.protocol.batch import HEADER_SIZE_BYTES, unpack
from pykraft.protocol.compression import Compression
from pykraft.protocol.records import HEADERS_MAX, end_of_records
from pykraft.spark.arrow_columns import array_column
from pykraft.spark.data_source.headers import Headers
from pykraft.types import Buffer

TOGETHER_MIN: Final = 40
"""So many batches with a record left, on average, make one step over all of them as fast as a loop."""
HEADERS_EACH_MAX: Final = 64
"""Of a record; the protocol's decoder reads more."""
TIMES_MAX: Final = 2**61
HEADERS: Final = pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))
_NUMBER_SIZE_BYTES_MAX: Final = 4
_TIME_SIZE_BYTES_MAX: Final = 9


def _sizes_by_word() -> np.ndarray:
    words = np.arange(1 << 16)
    low, high = words & 0xFF, words >> 8
    is_one_byte = low <= 0x7F
    lengths = np.where(is_one_byte, low, low & 0x7F | high << 7)
    are_known = (lengths & 1 == 0) & (is_one_byte | (high <= 0x7F))
    return np.where(are_known, (lengths >> 1) + np.where(is_one_byte, 1, 2), 0)


_SIZES_BY_WORD: Final = _sizes_by_word()
"""By its first two bytes, as a little-endian number, the bytes that a record takes; 0 if it takes more than 8 KiB."""


@dataclass(frozen=True, slots=True)
class Bodies:
    """Records of batches, decompressed: where those of each batch start and end in ``data``."""

    data: Buffer
    starts: np.ndarray
    ends: np.ndarray

    def at(self, which: slice | np.ndarray) -> Bodies:
        """Of some of the batches."""
        return Bodies(self.data, self.starts[which], self.ends[which])


def groups_of(
    data: Buffer, headers: Headers, *, rows_max: int, size_bytes_max: int
) -> Iterator[tuple[Headers, Bodies | None]]:
    """Batches that become a group of rows, and their records; None for a batch that cannot be decompressed."""
    are_packed = headers.codecs != Compression.NONE
    edges = [0, *(np.flatnonzero(np.diff(are_packed)) + 1).tolist(), len(headers)]
    for begin, end in pairwise(edges):
        part = headers.at(slice(begin, end))
        if begin < end and are_packed[begin]:
            yield from _unpacked(data, part, rows_max, size_bytes_max)
        elif begin < end:
            for group in _by_size(part, rows_max, size_bytes_max):
                starts = group.positions + HEADER_SIZE_BYTES
                yield group, Bodies(data, starts, group.positions + group.sizes_bytes)


def _by_size(headers: Headers, rows_max: int, size_bytes_max: int) -> Iterator[Headers]:
    rows, size_bytes = np.cumsum(headers.counts), np.cumsum(headers.sizes_bytes)
    begin = rows_before = size_bytes_before = 0
    while begin < len(headers):
        end = min(
            int(np.searchsorted(rows, rows_before + rows_max, side="right")),
            int(np.searchsorted(size_bytes, size_bytes_before + size_bytes_max, side="right")),
        )
        end = max(end, begin + 1)
        yield headers.at(slice(begin, end))
        begin, rows_before, size_bytes_before = end, int(rows[end - 1]), int(size_bytes[end - 1])


def _unpacked(
    data: Buffer, headers: Headers, rows_max: int, size_bytes_max: int
) -> Iterator[tuple[Headers, Bodies | None]]:
    """The same for compressed batches. What a header claims is believed only when the records are decompressed."""
    begin = rows = size_bytes = 0
    bodies: list[bytes] = []

    def group(end: int) -> Iterator[tuple[Headers, Bodies]]:
        nonlocal begin, rows, size_bytes, bodies
        if bodies:
            ends = np.cumsum(np.array(list(map(len, bodies)), dtype=np.int64))
            starts = np.concatenate([[0], ends[:-1]])
            yield headers.at(slice(begin, end)), Bodies(b"".join(bodies), starts, ends)
        begin, rows, size_bytes, bodies = end, 0, 0, []

    starts, ends = headers.positions + HEADER_SIZE_BYTES, headers.positions + headers.sizes_bytes
    places = zip(starts.tolist(), ends.tolist(), headers.codecs.tolist(), headers.counts.tolist(), strict=True)
    for index, (start, end, codec, count) in enumerate(places):
        try:
            body = unpack(Compression(codec), data[start:end], count)
        except ProtocolError:
            yield from group(index)
            yield headers.at(slice(index, index + 1)), None
            begin = index + 1
            continue
        if bodies and (rows + count > rows_max or size_bytes + len(body) > size_bytes_max):
            yield from group(index)
        bodies.append(body)
        rows, size_bytes = rows + count, size_bytes + len(body)
    yield from group(len(headers))


@dataclass(slots=True)
class ParsedRecords:
    """``are_found`` has an entry for each batch, the others one for each record of all batches, in order.

    Sizes are -1 for null. The entries of a batch that was not found are meaningless.
    """

    are_found: np.ndarray
    offset_deltas: np.ndarray
    time_deltas: np.ndarray
    key_starts: np.ndarray
    key_sizes: np.ndarray
    value_starts: np.ndarray
    value_sizes: np.ndarray
    headers: np.ndarray
    """A column for each header: its record, where its name and its value start, and their sizes, as above."""


class FieldReader:
    """Reads one field after the other of all records; ``at`` is where each has come to."""

    def __init__(self, octets: np.ndarray, at: np.ndarray) -> None:
        self.octets = octets
        self.at = at
        self.are_bad = np.zeros(len(at), dtype=np.bool_)
        self.ends = np.full(len(at), len(octets), dtype=np.int64)

    def number(self, *, size_bytes_max: int = _NUMBER_SIZE_BYTES_MAX) -> np.ndarray:
        """A zigzag varint."""
        first = self.octets.take(self.at, mode="clip")
        values = first.astype(np.int64)
        self.at = self.at + 1
        longer = np.flatnonzero(first > 0x7F)
        if len(longer):
            values[longer] &= 0x7F
        for shift in range(7, 7 * size_bytes_max, 7):
            if not len(longer):
                break
            following = self.octets.take(self.at[longer], mode="clip").astype(np.int64)
            self.at[longer] += 1
            values[longer] |= (following & 0x7F) << shift
            longer = longer[following > 0x7F]
        self.are_bad[longer] = True
        self._stay()
        return (values >> 1) ^ -(values & 1)

    def blob(self) -> tuple[np.ndarray, np.ndarray]:
        """Starts and sizes (-1 for null) of a key, a value, or the like."""
        sizes = self.number()
        starts = self.at
        self.are_bad |= sizes < -1
        self.skip(np.maximum(sizes, 0))
        return starts, sizes

    def skip(self, size_bytes: int | np.ndarray) -> None:
        self.at = self.at + size_bytes
        self._stay()

    def part(self, which: np.ndarray | slice) -> FieldReader:
        """A reader of some of the records."""
        found = FieldReader(self.octets, self.at[which])
        found.ends = self.ends[which]
        return found

    def _stay(self) -> None:
        """Within its record; whoever left it is bad."""
        beyond = self.at > self.ends
        if beyond.any():
            self.are_bad |= beyond
            self.at = np.minimum(self.at, self.ends)


def parse_records(bodies: Bodies, counts: np.ndarray, last_deltas: np.ndarray) -> ParsedRecords:
    """The records of batches of so many, each at least one, whose last offset deltas are these."""
    octets = np.frombuffer(bodies.data, dtype=np.uint8)
    starts, are_walked = _starts(octets, bodies, counts)
    which = np.repeat(np.arange(len(counts)), counts)
    reader = FieldReader(octets, starts)
    lengths = reader.number()
    reader.ends = np.minimum(reader.at + np.maximum(lengths, 0), bodies.ends[which])
    reader.are_bad |= (lengths <= 0) | ~are_walked[which]
    reader.skip(1)  # the attributes
    time_deltas = reader.number(size_bytes_max=_TIME_SIZE_BYTES_MAX)
    offset_deltas = reader.number()
    key_starts, key_sizes = reader.blob()
    value_starts, value_sizes = reader.blob()
    headers = _read_headers(reader, bodies.data, which, len(counts))
    reader.are_bad |= (reader.at != reader.ends) | (np.abs(time_deltas) > TIMES_MAX)
    # Offsets ascend within a batch.
    first_rows = np.cumsum(counts) - counts
    before = np.empty_like(offset_deltas)
    before[1:] = offset_deltas[:-1]
    before[first_rows] = -1
    reader.are_bad |= (offset_deltas <= before) | (offset_deltas > last_deltas[which])
    return ParsedRecords(
        are_found=~np.logical_or.reduceat(reader.are_bad, first_rows),
        offset_deltas=offset_deltas,
        time_deltas=time_deltas,
        key_starts=key_starts,
        key_sizes=key_sizes,
        value_starts=value_starts,
        value_sizes=value_sizes,
        headers=headers,
    )


def _read_headers(reader: FieldReader, data: Buffer, which: np.ndarray, batches: int) -> np.ndarray:
    """See `ParsedRecords.headers`; whether they are well formed is asked even where no column has them."""
    found = [np.empty((5, 0), dtype=np.int64)]
    left = reader.number()
    reader.are_bad |= (left < 0) | (left > HEADERS_EACH_MAX)
    rows = np.flatnonzero((left > 0) & ~reader.are_bad)
    if not len(rows):
        return found[0]
    too_many = np.bincount(which[rows], weights=left[rows], minlength=batches) > HEADERS_MAX
    reader.are_bad |= too_many[which]
    rows = rows[~reader.are_bad[rows]]
    left = left[rows]
    while len(rows):
        own = reader.part(rows)
        starts, sizes = own.blob()
        own.are_bad |= (sizes < 0) | ~_are_texts(data, starts, np.maximum(sizes, 0), own.are_bad)
        found.append(np.stack([rows, starts, sizes, *own.blob()]))
        reader.at[rows] = own.at
        reader.are_bad[rows] |= own.are_bad
        go_on = (left > 1) & ~own.are_bad
        rows, left = rows[go_on], left[go_on] - 1
    headers = np.concatenate(found, axis=1)
    return headers[:, np.argsort(headers[0], kind="stable")]


def _are_texts(data: Buffer, starts: np.ndarray, sizes: np.ndarray, are_bad: np.ndarray) -> np.ndarray:
    """Which of these bytes are UTF-8: usually all, which one check shows."""
    ends = np.where(are_bad, starts, starts + sizes)
    names = cells(data, starts, ends - starts)
    try:
        names.cast(pa.string())
    except pa.ArrowInvalid:
        return np.zeros(len(starts), dtype=np.bool_)
    return np.ones(len(starts), dtype=np.bool_)


def _starts(octets: np.ndarray, bodies: Bodies, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where the records start, and for each batch whether its last record ends where the batch does."""
    steps = int(counts.max())
    if int(counts.sum()) >= TOGETHER_MIN * steps:
        return _starts_together(octets, bodies, counts, steps)
    data = bytes(bodies.data)
    starts: list[int] = []
    are_walked = np.zeros(len(counts), dtype=np.bool_)
    for index, (start, end, count) in enumerate(
        zip(bodies.starts.tolist(), bodies.ends.tolist(), counts.tolist(), strict=True)
    ):
        before = len(starts)
        are_walked[index] = end_of_records(data, start, count, starts) == end
        if not are_walked[index]:
            # Its records have entries all the same.
            starts[before:] = [start] * count
    return np.array(starts, dtype=np.int64), are_walked


def _starts_together(
    octets: np.ndarray, bodies: Bodies, counts: np.ndarray, steps: int
) -> tuple[np.ndarray, np.ndarray]:
    """The same, one record of each batch in a step."""
    order = np.argsort(-counts, kind="stable")
    first_rows = (np.cumsum(counts) - counts)[order]
    active = np.searchsorted(-counts[order], -np.arange(steps), side="left").tolist()
    at = bodies.starts[order]
    are_bad = np.zeros(len(order), dtype=np.bool_)
    starts = np.empty(int(counts.sum()), dtype=np.int64)
    words = np.ndarray(len(octets) - 1, dtype="<u2", buffer=octets, strides=(1,))
    for step, batches in enumerate(active):
        own = at[:batches]
        starts[first_rows[:batches] + step] = own
        sizes = _SIZES_BY_WORD[words[np.minimum(own, len(words) - 1)]]
        if not sizes.all():
            others = np.flatnonzero(sizes == 0)
            reader = FieldReader(octets, own[others])
            lengths = reader.number()
            are_bad[others] |= reader.are_bad | (lengths < 0)
            sizes[others] = reader.at - own[others] + np.maximum(lengths, 0)
        own += sizes
    are_walked = np.empty(len(order), dtype=np.bool_)
    are_walked[order] = (at == bodies.ends[order]) & ~are_bad
    return starts, are_walked


def cells(data: Buffer, starts: np.ndarray, sizes: np.ndarray) -> pa.BinaryArray:
    """A column of the bytes at these positions, which ascend and do not overlap; a size of -1 is null."""
    edges = np.empty(2 * len(starts), dtype=np.int32)
    edges[0::2] = starts
    edges[1::2] = starts + np.maximum(sizes, 0)
    # The cells of this column alternate between what is wanted and the bytes between; take every second one.
    all_cells = pa.Array.from_buffers(
        pa.binary(), max(0, len(edges) - 1), [None, pa.py_buffer(edges), pa.py_buffer(data)]
    )
    places = array_column(np.arange(0, max(0, len(edges) - 1), 2), pa.int64())
    are_null = sizes < 0
    if are_null.any():
        valid = pa.py_buffer(np.packbits(~are_null, bitorder="little"))
        places = pa.Array.from_buffers(pa.int64(), len(places), [valid, places.buffers()[1]])
    return all_cells.take(places)


def headers_column(data: Buffer, headers: np.ndarray, count: int) -> pa.ListArray:
    """The headers of so many records, as Spark's Kafka source has them: null for none."""
    rows, names, name_sizes, values, value_sizes = headers
    texts = cells(data, names, name_sizes).cast(pa.string())
    return lists_of_headers(texts, cells(data, values, value_sizes), np.bincount(rows, minlength=count))


def lists_of_headers(names: pa.StringArray, values: pa.BinaryArray, counts: np.ndarray) -> pa.ListArray:
    """The same, of all names and values, and how many of them each record has."""
    edges = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    valid = pa.py_buffer(np.packbits(counts > 0, bitorder="little"))
    pairs = pa.StructArray.from_arrays([names, values], fields=list(HEADERS.value_type))
    return pa.Array.from_buffers(HEADERS, len(counts), [valid, pa.py_buffer(edges)], children=[pairs])


def merged(parts: Sequence[tuple[np.ndarray, pa.Array]], count: int, kind: pa.DataType) -> pa.Array:
    """A column of so many rows from parts of it, each with the rows that it has, ascending; all others are null."""
    parts = [(rows, column) for rows, column in parts if len(rows)]
    if len(parts) == 1 and len(parts[0][0]) == count:
        return parts[0][1]
    if not parts:
        return pa.nulls(count, kind)
    order = np.full(count, -1, dtype=np.int64)
    order[np.concatenate([rows for rows, _ in parts])] = np.arange(sum(len(rows) for rows, _ in parts))
    valid = pa.py_buffer(np.packbits(order >= 0, bitorder="little"))
    places = pa.Array.from_buffers(pa.int64(), count, [valid, pa.py_buffer(np.maximum(order, 0))])
    return pa.concat_arrays([column for _, column in parts]).take(places)
