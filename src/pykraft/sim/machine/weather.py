"""How fast the network of a world is when no fault slows it down, and what happens to packets that nobody answers.

Source: `pykraft.sim.scenario.scenario.LinkSettings`, of which this is one draw.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from pykraft.sim.scenario.scenario import LinkSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
    """Latency of one hop in microseconds, and how often a frame takes ten times as long."""

    latency_us_min: int = 100
    latency_us_max: int = 2_000
    slow_probability: float = 0.01
    byte_us: int = 0
    """Microseconds per byte: a million over the bandwidth."""
    unanswered_probability: float = 0.0
    half_open_probability: float = 0.0
    dice: float = 0.0
    """Seed of the generators for packets that nobody answers and for narrow links; nothing else uses them."""

    @classmethod
    def draw(cls, links: LinkSettings, rng: Random) -> Weather:
        """Draw the weather of one world."""
        drawn = cls(
            latency_us_min=links.latency_us_min,
            latency_us_max=rng.choice(links.latency_us_max),
            slow_probability=links.slow_probability,
            byte_us=rng.choice(links.byte_us),
            unanswered_probability=links.unanswered_probability,
            half_open_probability=links.half_open_probability,
            dice=rng.random(),
        )
        narrow = Random(f"narrow {drawn.dice}")
        is_narrow = narrow.random() < links.narrow_probability
        return replace(drawn, byte_us=narrow.choice(links.narrow_byte_us)) if is_narrow else drawn
