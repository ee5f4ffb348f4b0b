"""A world for tests of one fault family: the test calls its faults directly, with separate random streams."""

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
