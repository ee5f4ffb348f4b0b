"""Finds a world for each planted bug: ``python -m tests.recipes.worlds.search [NAME…] [--seeds A:B]``.

It prints the first seed in which the bug is noticed, by which rule, and what was seen.
"""

from __future__ import annotations

import argparse

from pykraft.sim.run.simulation import Failure
from tests.recipes.worlds.bugs import BUGS, RecipeBug
from tests.recipes.worlds.workload import run_recipes
from tests.sim.mutants.patch import Patch


def noticed(bug: RecipeBug, seed: int) -> tuple[str, str] | None:
    """The rule that the bug breaks in this world, and the reason; None if it is not noticed."""
    with Patch() as patch:
        bug.plant(patch)
        result = run_recipes(seed)
    if not isinstance(result, Failure):
        return None
    return result.reason.split(": ")[1 if result.reason.startswith("ViolationError") else 0], result.reason


def main() -> None:
    """Search."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=list(BUGS))
    parser.add_argument("--seeds", default="0:100")
    options = parser.parse_args()
    begin, end = map(int, options.seeds.split(":"))
    for name in options.names or list(BUGS):
        for seed in range(begin, end):
            found = noticed(BUGS[name], seed)
            if found is not None:
                print(name, seed, *found, flush=True)
                break
        else:
            print(name, "lives", flush=True)


if __name__ == "__main__":
    main()
