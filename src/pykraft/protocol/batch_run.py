"""Checks many batches that follow each other in one buffer without an object for each.

A log of small batches has millions of headers, and most are as KRaft writes them: no codec, one epoch, offsets without
a gap. Their fields are read as columns, and each check compares a whole column at once. Invariant: every batch of a
`BatchRun` passes `pykraft.protocol.batch.read_header` and `check_crc`, holds records of the application, and begins
with the offset after the previous one. Whatever differs in any way is no run: the caller then reads batch by batch, and
finds out what it is.

Source: ours.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise, repeat
from operator import add, le, mul, sub
from typing import Any, Final

from crc32c import crc32c

from pykraft.protocol.batch import HEADER_SIZE_BYTES, MAGIC, RECORD_SIZE_BYTES_MIN, BatchHeader, read_header
from pykraft.types import Epoch, Offset

BATCHES_MIN: Final = 4
"""Fewer batches are read one by one just as fast."""
BATCHES_MAX: Final = 1_024
"""Limits the memory for the columns of one run."""

GROUP_BATCHES: Final = 128
"""Headers that one call unpacks where all batches have one size."""

_LAYOUT: Final = "q4x5sIhi8xq14xi"
_COLUMNS: Final = struct.Struct(f">{_LAYOUT}").unpack_from
_COLUMNS_COUNT: Final = 7
"""Base offset; epoch and magic together; CRC, attributes, last offset delta, max timestamp, count."""
_LENGTH: Final = struct.Struct(">i").unpack_from
_EPOCH: Final = struct.Struct(">i").unpack_from
_LENGTH_AT: Final = 8
_LENGTH_END: Final = 12
_CRC_START: Final = 21
_LENGTH_MIN: Final = HEADER_SIZE_BYTES - _LENGTH_END
_OFFSET_MAX: Final = 2**63 - 1


class BatchRun:
    """Sound batches that follow each other, of one epoch.

    ``positions`` are where they begin in the file, and where the last one ends: one more than there are batches.
    ``last_offsets`` are inclusive; ``max_timestamps`` are wall ms.
    """

    __slots__ = ("_buffer", "_shift", "base_offset", "epoch", "last_offsets", "max_timestamps", "positions")

    def __init__(
        self,
        buffer: bytes,
        shift: int,
        *,
        positions: Sequence[int],
        base_offset: Offset,
        epoch: Epoch,
        last_offsets: Sequence[int],
        max_timestamps: Sequence[int],
    ) -> None:
        """``shift`` is the position of the buffer in the file."""
        self.positions = positions
        self.base_offset = base_offset
        self.epoch = epoch
        self.last_offsets = last_offsets
        self.max_timestamps = max_timestamps
        self._buffer = buffer
        self._shift = shift

    def __len__(self) -> int:
        return len(self.last_offsets)

    @property
    def end(self) -> int:
        """Position after the last batch."""
        return self.positions[-1]

    @property
    def end_offset(self) -> Offset:
        """Offset after the last batch."""
        return Offset(self.last_offsets[-1] + 1)

    def headers(self) -> Iterator[tuple[int, BatchHeader]]:
        """Position and header of each batch."""
        for position in self.positions[:-1]:
            yield position, read_header(self._buffer, position - self._shift)

    def contents(self) -> Iterator[memoryview]:
        """The bytes of each batch, header included."""
        view = memoryview(self._buffer)
        for start, end in pairwise(self.positions):
            yield view[start - self._shift : end - self._shift]


def batch_starts(buffer: bytes, at: int) -> Sequence[int]:
    """Where the whole batches from ``at`` on begin, by their lengths alone, and where the last one ends.

    Only ``at`` when there is no whole batch.
    """
    end = len(buffer)
    if end - at < HEADER_SIZE_BYTES:
        return [at]
    stride: int = _LENGTH(buffer, at + _LENGTH_AT)[0] + _LENGTH_END
    if stride >= HEADER_SIZE_BYTES and _is_uniform(buffer, at, stride, count := min(BATCHES_MAX, (end - at) // stride)):
        return range(at, at + count * stride + 1, stride)
    starts = [at]
    while len(starts) <= BATCHES_MAX and end - at >= HEADER_SIZE_BYTES:
        length: int = _LENGTH(buffer, at + _LENGTH_AT)[0]
        at += _LENGTH_END + length
        if length < _LENGTH_MIN or at > end:
            break
        starts.append(at)
    return starts


def _is_uniform(buffer: bytes, at: int, stride: int, count: int) -> bool:
    """True when as many batches of one size follow each other."""
    at += _LENGTH_AT
    end = at + (count - 1) * stride + 1
    # The first bytes of all lengths are equal, the second bytes, and so on.
    return count > 0 and all(
        buffer[at + part : end + part : stride] == buffer[at + part : at + part + 1] * count for part in range(4)
    )


def _columns(buffer: bytes, starts: Sequence[int]) -> list[list[Any]]:
    columns: list[list[Any]] = [[] for _ in range(_COLUMNS_COUNT)]
    at = 0
    while isinstance(starts, range) and len(starts) - 1 - at >= GROUP_BATCHES:
        fields = _group(starts.step, GROUP_BATCHES)(buffer, starts[at])
        for number, column in enumerate(columns):
            column.extend(fields[number::_COLUMNS_COUNT])
        at += GROUP_BATCHES
    if at < len(starts) - 1:
        rest = zip(*map(_COLUMNS, repeat(buffer), starts[at:-1]), strict=True)
        for column, field in zip(columns, rest, strict=True):
            column.extend(field)
    return columns


@lru_cache(maxsize=8)
def _group(stride: int, count: int) -> Callable[[bytes, int], tuple[Any, ...]]:
    """Reads the fields of ``count`` headers that are this far apart, one header's after the other's."""
    several = struct.Struct(f">{(_LAYOUT + f'{stride - HEADER_SIZE_BYTES}x') * (count - 1)}{_LAYOUT}")
    return several.unpack_from


def batch_run(buffer: bytes, starts: Sequence[int], *, shift: int) -> BatchRun | None:
    """The batches that begin at these places of the buffer, if they are a run. ``shift``: where the buffer begins."""
    base_offsets, marks, crcs, attributes, deltas, max_timestamps, counts = _columns(buffer, starts)
    last_offsets = [*map(add, base_offsets, deltas)]
    checked = map(add, starts[:-1], repeat(_CRC_START))
    epoch: int = _EPOCH(marks[0])[0]
    is_plain = (
        # No codec, no control batch, no transaction.
        not any(attributes)
        # One epoch, and the right magic in each batch.
        and marks[0][-1] == MAGIC
        and marks.count(marks[0]) == len(marks)
        and epoch >= 0
        # Each offset has its record, and each batch the offset after the previous one's.
        and min(deltas) >= 0
        and {*map(sub, counts, deltas)} == {1}
        and base_offsets[0] >= 0
        and last_offsets[-1] <= _OFFSET_MAX
        and {*map(sub, base_offsets[1:], last_offsets)} <= {1}
        # No batch has more records than bytes for them.
        and _have_room(starts, counts)
    )
    if not is_plain:
        return None
    with memoryview(buffer) as view:
        # Without any Python code for a single batch: this takes half of the time of a whole run.
        if crcs != [*map(crc32c, map(view.__getitem__, map(slice, checked, starts[1:])))]:
            return None
    return BatchRun(
        buffer,
        shift,
        positions=[*map(add, starts, repeat(shift))] if shift else starts,
        base_offset=Offset(base_offsets[0]),
        epoch=Epoch(epoch),
        last_offsets=last_offsets,
        max_timestamps=max_timestamps,
    )


def _have_room(starts: Sequence[int], counts: Sequence[int]) -> bool:
    if isinstance(starts, range):
        return max(counts) * RECORD_SIZE_BYTES_MIN <= starts.step - HEADER_SIZE_BYTES
    bodies = map(add, starts, repeat(HEADER_SIZE_BYTES))
    return all(map(le, map(mul, counts, repeat(RECORD_SIZE_BYTES_MIN)), map(sub, starts[1:], bodies)))
