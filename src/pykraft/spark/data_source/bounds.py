"""Bounds of what a query reads, as its options and the filters that Spark hands over give them.

A plan needs them without Spark. Invariant: a bound never leaves out a wanted row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pykraft.spark.data_source.splits import OFFSET_MIN, Split
from pykraft.spark.data_source.walk import OFFSET_MAX
from pykraft.types import Epoch, Offset

EPOCH_MIN: Final = Epoch(-1)
"""Of a batch that no leader of a quorum wrote."""
EPOCH_MAX: Final = Epoch(2**31 - 1)
TIMESTAMP_MS_MIN: Final = -(2**63)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What may hold wanted rows. ``offset_end`` is exclusive, all others inclusive; ``replicas`` is None for all."""

    offset_min: Offset = OFFSET_MIN
    offset_end: Offset = OFFSET_MAX
    epoch_min: Epoch = EPOCH_MIN
    epoch_max: Epoch = EPOCH_MAX
    timestamp_ms_min: int = TIMESTAMP_MS_MIN
    replicas: frozenset[str] | None = None

    def has_replica(self, name: str) -> bool:
        """Whether rows of this replica are wanted."""
        return self.replicas is None or name in self.replicas

    def may_hold(self, split: Split) -> bool:
        """Whether a split may hold wanted rows, as its first and last epoch tell: epochs never fall in a log."""
        if split.first is None or split.last is None:
            return True
        return split.first.epoch <= self.epoch_max and split.last.epoch >= self.epoch_min


EVERYTHING = Bounds()
