"""What is known of each seed: a digest of its row, in 8 bytes, so that a million seeds take 8 MB.

A campaign counts each seed once, and two rows for one seed must agree, because a seed gives the same world everywhere.
Seeds come in ranges; a page of 256 of them is one array. Invariant: a digest that was added never changes.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Final

from lab.campaign.seed_ranges import SeedRanges

SEEDS_A_PAGE: Final = 256
NONE: Final = 0
_EMPTY: Final = array("q", bytes(8 * SEEDS_A_PAGE))


class SeedDigests:
    """Digests by seed."""

    def __init__(self) -> None:
        self._pages: dict[int, array[int]] = {}

    def __contains__(self, seed: int) -> bool:
        number, place = divmod(seed, SEEDS_A_PAGE)
        page = self._pages.get(number)
        return page is not None and page[place] != NONE

    def add(self, seed: int, digest: int) -> bool | None:
        """Add a digest, a signed 64-bit integer. True: it is new; False: it was known; None: another one was known."""
        digest = digest or 1  # 0 says that there is none
        number, place = divmod(seed, SEEDS_A_PAGE)
        page = self._pages.get(number)
        if page is None:
            page = self._pages[number] = array("q", _EMPTY)
        known = page[place]
        if known == NONE:
            page[place] = digest
            return True
        return False if known == digest else None

    def left_of(self, seeds: Iterable[int]) -> SeedRanges:
        """The seeds without a digest."""
        return SeedRanges.of(seed for seed in seeds if seed not in self)
