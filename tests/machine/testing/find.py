"""Finds worlds in which planted bugs are noticed: what is shared by the searches of machines' bugs and of recipes'."""

import argparse
from collections.abc import Callable, Mapping
from typing import TypeAlias, TypeVar

from pykraft.sim.run.simulation import Failure
from pykraft.sim.run.world import Outcome
from tests.sim.mutants.patch import Patch

B = TypeVar("B")
Noticed: TypeAlias = tuple[str, str] | None
"""The rule that a bug breaks in a world, and what was seen; None if it is not noticed."""


def play_with(plant: Callable[[Patch], None], play: Callable[[], Outcome | Failure]) -> Noticed:
    """Play a world with this bug in it."""
    with Patch() as patch:
        plant(patch)
        result = play()
    if not isinstance(result, Failure):
        return None
    return result.reason.split(": ")[1 if result.reason.startswith("ViolationError") else 0], result.reason


def search(bugs: Mapping[str, B], noticed: Callable[[B, int], Noticed]) -> None:
    """The command line: print the first seed in which each bug is noticed, by which rule, and what was seen."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=list(bugs))
    parser.add_argument("--seeds", default="0:100")
    options = parser.parse_args()
    begin, end = map(int, options.seeds.split(":"))
    for name in options.names:
        for seed in range(begin, end):
            found = noticed(bugs[name], seed)
            if found is not None:
                print(name, seed, *found, flush=True)
                break
        else:
            print(name, "lives", flush=True)
