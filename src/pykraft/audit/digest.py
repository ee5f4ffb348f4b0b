"""Digests of a log by ranges of offsets, so that replicas are compared without moving their bytes.

A range is aligned: number *n* covers the batches that begin at offsets from *n* times its width on. Its digest is the
sum of a hash of each batch, modulo 2^128. So it does not depend on where segments or tasks begin, and the digests of
two tasks that share a range are added. A batch contains its own offset, so batches in another order or place give
another sum. Invariant: two replicas with the same digest hold the same bytes, unless 128 bits of BLAKE2 collide.

Source: ours, after the incremental hashes of Bellare and Micciancio (1997).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Final

from pykraft.types import Buffer, Offset

_SIZE_BYTES: Final = 16
_MODULUS: Final = 2 ** (8 * _SIZE_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeDigest:
    """The sound batches of one range; ``end_offset`` is exclusive."""

    number: int
    first_offset: Offset
    end_offset: Offset
    batches_count: int
    size_bytes: int
    total: int

    def plus(self, other: RangeDigest) -> RangeDigest:
        """Both, where two parts of a log share a range."""
        return replace(
            self,
            first_offset=min(self.first_offset, other.first_offset),
            end_offset=max(self.end_offset, other.end_offset),
            batches_count=self.batches_count + other.batches_count,
            size_bytes=self.size_bytes + other.size_bytes,
            total=(self.total + other.total) % _MODULUS,
        )


class Digests:
    """The digests of one part of a log, while it is read in order."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._by_number: dict[int, RangeDigest] = {}
        self._number = -1
        self._first = self._end = Offset(0)
        self._count = self._size = self._total = 0

    def add(self, content: Buffer, base_offset: Offset, end_offset: Offset) -> None:
        """Count a batch with these bytes."""
        if base_offset // self._width != self._number:
            self._close()
            self._number, self._first = base_offset // self._width, base_offset
        self._end = end_offset
        self._count += 1
        self._size += len(content)
        self._total += int.from_bytes(blake2b(content, digest_size=_SIZE_BYTES).digest())

    def finished(self) -> list[RangeDigest]:
        """All digests, in the order of the log."""
        self._close()
        self._number = -1
        return list(self._by_number.values())

    def _close(self) -> None:
        if self._number < 0:
            return
        one = RangeDigest(
            number=self._number,
            first_offset=self._first,
            end_offset=self._end,
            batches_count=self._count,
            size_bytes=self._size,
            total=self._total % _MODULUS,
        )
        known = self._by_number.get(self._number)
        self._by_number[self._number] = one if known is None else known.plus(one)
        self._count = self._size = self._total = 0
