"""Where the records of a batch lie and which bytes are around their values, if all values have one size.

All bytes of a KRaft record except its value follow from two numbers: the size of the value and the record's index in
the batch, its offset delta (`pykraft.protocol.values` has the layout). Records whose deltas take the same number of
bytes (1 for indexes 0 to 63, 2 to 8,191, ...) have one size; such a part of a batch is a `Stretch`.

Source: KIP-98; Kafka's ``DefaultRecord``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pykraft.protocol.varint import encode_varint, varint_size_bytes

_DELTA_ENDS = (64, 8_192, 1_048_576, 134_217_728)
"""Offset deltas below these take 1, 2, 3, 4 bytes; no batch below 2 GiB holds more records than the last one."""
BEFORE_DELTA = b"\x00\x00"
"""Attributes and timestamp delta."""
NO_KEY = b"\x01"
NO_HEADERS = 0
WORD = 8


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
        """Of a whole record."""
        return _record_size_bytes(self.delta_size_bytes, self.value_size_bytes)

    @property
    def head_size_bytes(self) -> int:
        """From the start of a record to its value; after the value stands only the count of headers."""
        return self.record_size_bytes - self.value_size_bytes - 1

    def head_words(self, deltas: np.ndarray) -> Iterator[tuple[int, int, np.ndarray]]:
        """The bytes before the values of records with these deltas, as little-endian words of eight bytes.

        Yields the distance of a word from the start of the record, the mask of its bytes that count, and the words. The
        last word overlaps the one before. Of a head shorter than a word, it has bytes of the value, too.
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
    """The stretches of a batch of so many records."""
    first_delta, begin = 0, 0
    for end_delta in _DELTA_ENDS:
        if first_delta >= records:
            return
        one = Stretch(
            value_size_bytes=value_size_bytes,
            first_delta=first_delta,
            end_delta=min(end_delta, records),
            begin=begin,
        )
        yield one
        begin += (end_delta - first_delta) * one.record_size_bytes
        first_delta = end_delta


def bodies_size_bytes(counts: np.ndarray, value_size_bytes: int) -> np.ndarray:
    """The sizes of batches of so many records with values of this size, without the headers of the batches."""
    total = np.zeros_like(counts)
    first_delta = 0
    for width, end_delta in enumerate(_DELTA_ENDS, start=1):
        total += (np.clip(counts, first_delta, end_delta) - first_delta) * _record_size_bytes(width, value_size_bytes)
        first_delta = end_delta
    return total


def _rest_size_bytes(delta_size_bytes: int, value_size_bytes: int) -> int:
    around = len(BEFORE_DELTA) + delta_size_bytes + len(NO_KEY) + 1
    return around + varint_size_bytes(value_size_bytes) + value_size_bytes


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
