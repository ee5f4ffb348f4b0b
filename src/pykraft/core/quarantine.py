"""What a replica remembers while part of its own log is lost.

With every Fetch, a replica promises that it holds all records below the fetch offset. Damage breaks that promise,
perhaps for records that are committed because of it. Until the log is whole again, the replica takes no part in
elections: a majority without it still holds every such record, so any elected leader has them. It still follows,
fetches and acknowledges.

Data only; the rules are in ``core.on.corruption``.
"""

from dataclasses import dataclass

from pykraft.types import Damage, Epoch, Offset

DAMAGES_MAX = 100
"""Damaged places that are remembered; further ones are only reported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantine:
    """``epoch`` is the highest epoch in which this replica may have acknowledged the records that it lost.

    ``until_offset``: in that epoch it acknowledged nothing at or above this offset; None when unknown. ``is_cut``: the
    files end at the log end; before that, they still hold the damage and what follows it.
    """

    epoch: Epoch
    until_offset: Offset | None
    damages: tuple[Damage, ...]
    is_cut: bool

    def with_damages(self, *found: Damage) -> tuple[Damage, ...]:
        """All known damages without duplicates, oldest first, at most `DAMAGES_MAX`."""
        places = {(damage.path, damage.start_offset) for damage in self.damages}
        fresh = tuple(damage for damage in found if (damage.path, damage.start_offset) not in places)
        return (self.damages + fresh)[:DAMAGES_MAX]
