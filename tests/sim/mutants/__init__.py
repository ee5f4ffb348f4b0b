"""Bugs to plant: each takes one rule out of production code, and has a seed whose world notices.

The package itself contains none of this. A mutant patches what the host runs; the world, its disk and its oracles stay
as they are. One file holds one family; each bug has its story and where the story is from. The seeds are in
``seeds.json``; ``pykraft sim mutants --rewrite`` searches for new ones.
"""

from tests.sim.mutants import (  # noqa: F401 - each file adds its bugs to MUTANTS
    connections,
    directories,
    election,
    groups,
    host,
    membership,
    principals,
    producers,
    recovery,
    replication,
    snapshots,
    strangers,
    told,
)
from tests.sim.mutants.patch import MUTANTS, Mutant, planted

__all__ = ["MUTANTS", "Mutant", "planted"]
