"""What a replica remembers while part of its own log is lost.

A replica promises with every Fetch that it holds what lies below. Damage breaks that promise, perhaps for records
that are committed because of it. Until it is mended the replica takes no part in elections: a majority without it
still holds every such record, so whoever is elected has it. It follows, fetches and acknowledges as any other.

Pure data; the rules are in ``core.on.corruption``.
"""

from __future__ import annotations

from dataclasses import dataclass

from pykraft.types import Damage, Epoch, Offset

DAMAGES_MAX = 100
"""Damaged places that are remembered; further ones are only reported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantine:
    """``epoch`` is the highest one in which this replica may have acknowledged what it then lost.

    ``until_offset``: it never acknowledged anything at or above this offset in that epoch; None when not known.
    ``is_cut``: the files end where the log does; before that, they still hold the damage and what lies behind it.
    """

    epoch: Epoch
    until_offset: Offset | None
    damages: tuple[Damage, ...]
    is_cut: bool

    def with_damages(self, *found: Damage) -> tuple[Damage, ...]:
        """All damages, each place once, the oldest first and no more than `DAMAGES_MAX`."""
        places = {(damage.path, damage.start_offset) for damage in self.damages}
        fresh = tuple(damage for damage in found if (damage.path, damage.start_offset) not in places)
        return (self.damages + fresh)[:DAMAGES_MAX]
