"""Bugs to plant: each takes one rule out of production code, and has a seed whose world notices.

The package itself contains none of this. A mutant patches what the host runs; the world, its disk and its oracles stay
as they are. One file holds one family; each bug has its story and where the story is from. The seeds are in
``seeds.json``; ``pykraft sim mutants --rewrite`` searches for new ones.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.sim.mutants import (
    asking,
    backups,
    campaign,
    corruption,
    delivery,
    downloads,
    durability,
    election,
    emptied,
    failover,
    flipped,
    forged,
    high_watermark,
    host,
    links,
    machines,
    membership,
    never_leads,
    producers,
    recovery,
    replication,
    snapshots,
    strangers,
    told,
    twins,
)
from tests.sim.mutants.mutant import Mutant, planted

FAMILIES = (
    election,
    campaign,
    replication,
    durability,
    recovery,
    high_watermark,
    host,
    delivery,
    corruption,
    emptied,
    membership,
    snapshots,
    downloads,
    asking,
    links,
    failover,
    never_leads,
    strangers,
    told,
    producers,
    forged,
    twins,
    backups,
    machines,
    flipped,
)
MUTANTS: Mapping[str, Mutant] = {mutant.name: mutant for family in FAMILIES for mutant in family.MUTANTS}

__all__ = ["MUTANTS", "Mutant", "planted"]
