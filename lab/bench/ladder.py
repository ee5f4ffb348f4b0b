"""Searches for the highest rate that a contender sustains if it breaks above that.

Rates double until one is not sustained (or halve until one is); then the gap is halved twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

DOUBLINGS_MAX: Final = 8
HALVINGS_MAX: Final = 8
REFINEMENTS: Final = 2


def highest_sustained(is_sustained: Callable[[int], bool], start: int) -> int | None:
    """The highest rate found; None if even a small fraction of the first one is too much.

    At most ``DOUBLINGS_MAX + REFINEMENTS`` or ``1 + HALVINGS_MAX + REFINEMENTS`` tries.
    """
    good, bad = _climb(is_sustained, start)
    if bad == start:
        good = _descend(is_sustained, start)
        bad = good * 2 if good else None
    if good is None or bad is None:
        return good
    for _ in range(REFINEMENTS):
        middle = (good + bad) // 2
        if is_sustained(middle):
            good = middle
        else:
            bad = middle
    return good


def _climb(is_sustained: Callable[[int], bool], start: int) -> tuple[int | None, int | None]:
    """The last rate that was sustained and the first one that was not."""
    good, rate = None, start
    for _ in range(DOUBLINGS_MAX):
        if not is_sustained(rate):
            return good, rate
        good, rate = rate, rate * 2
    return good, None


def _descend(is_sustained: Callable[[int], bool], start: int) -> int | None:
    rate = start
    for _ in range(HALVINGS_MAX):
        rate //= 2
        if rate < 1:
            return None
        if is_sustained(rate):
            return rate
    return None
