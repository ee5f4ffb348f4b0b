"""Seeds as a few ranges: a million of them is a few numbers, also when they travel to other processes.

Invariant: the seeds keep their order.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain
from typing import overload


class SeedRanges(Sequence[int]):
    """A sequence of seeds; its slices are sequences like it."""

    def __init__(self, ranges: Iterable[range]) -> None:
        """The ranges have step 1."""
        self.ranges = tuple(each for each in ranges if each)
        self._ends = list(accumulate(map(len, self.ranges)))

    @classmethod
    def of(cls, seeds: Iterable[int]) -> SeedRanges:
        """These seeds, in this order; those that follow each other are one range."""
        found: list[range] = []
        start = end = 0
        for seed in seeds:
            if seed != end:
                found.append(range(start, end))
                start = seed
            end = seed + 1
        return cls([*found, range(start, end)])

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __iter__(self) -> Iterator[int]:
        return chain.from_iterable(self.ranges)

    @overload
    def __getitem__(self, place: int) -> int: ...

    @overload
    def __getitem__(self, place: slice) -> SeedRanges: ...

    def __getitem__(self, place: int | slice) -> int | SeedRanges:
        if isinstance(place, slice):
            start, stop, step = place.indices(len(self))
            assert step == 1, "parts are consecutive"
            return SeedRanges(self._between(start, stop))
        index = place + len(self) if place < 0 else place
        if not 0 <= index < len(self):
            raise IndexError(place)
        at = bisect_right(self._ends, index)
        return self.ranges[at][index - self._start(at)]

    def _start(self, at: int) -> int:
        return self._ends[at - 1] if at else 0

    def _between(self, start: int, stop: int) -> Iterator[range]:
        for at in range(bisect_right(self._ends, start), len(self.ranges)):
            begin = self._start(at)
            if begin >= stop:
                return
            yield self.ranges[at][max(0, start - begin) : stop - begin]
