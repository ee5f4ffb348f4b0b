"""A world for tests of one family: the family's acts, called by hand, with dice of their own."""

from __future__ import annotations

from random import Random

from pykraft.sim.faults.harm import Harm
from pykraft.sim.run.world import World


def harm_to(world: World, seed: int = 1) -> Harm:
    """A book of its own; nothing is planned."""
    return Harm(world, Random(seed))


def told(world: World, text: str) -> bool:
    """True when some line of the trace says it."""
    return any(text in line for line in world.trace.lines)
