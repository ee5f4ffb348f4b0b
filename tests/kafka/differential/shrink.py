"""Shortens a sequence that shows a difference: leaves out steps as long as the same difference remains.

Invariant: what it returns was played and differed. It plays a bounded number of times, since each takes seconds.
"""

from collections.abc import Callable, Sequence
from typing import Final

from tests.kafka.differential.run import Finding
from tests.kafka.differential.steps import Step

PLAYS_MAX: Final = 20


def shortest(
    found: Finding, replay: Callable[[Sequence[Step]], Finding | None], *, plays_max: int = PLAYS_MAX
) -> Finding:
    """The shortest sequence that was found; ``replay`` plays one. The number of the finding stays that of its seed.

    Halves are left out first, then quarters, down to single steps.
    """
    best = found
    plays = 0
    size = len(best.steps) // 2
    while size:
        at = 0
        while at + size <= len(best.steps):
            if plays == plays_max:
                return best
            plays += 1
            again = replay([*best.steps[:at], *best.steps[at + size :]])
            if again is not None and again.places & found.places:
                best = Finding(
                    seed=found.seed,
                    number=found.number,
                    steps=again.steps,
                    differences=again.differences,
                    looks=again.looks,
                )
            else:
                at += size
        size //= 2
    return best
