"""Percentiles of values that each stand for many records.

Invariant: the result is one of the values, never between two of them.

Source: the nearest-rank definition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence


def percentiles(values: Iterable[tuple[float, int]], shares: Mapping[str, float]) -> dict[str, float]:
    """By name, the smallest value that at least this share of all records do not exceed; 0 without records.

    ``values`` are pairs of a value and the number of records that it stands for.
    """
    ascending = sorted(values)
    total = sum(count for _, count in ascending)
    return {name: _nearest_rank(ascending, total * share) for name, share in shares.items()}


def _nearest_rank(ascending: Sequence[tuple[float, int]], needed: float) -> float:
    seen = 0
    for value, count in ascending:
        seen += count
        if seen >= needed:
            return value
    return 0.0
