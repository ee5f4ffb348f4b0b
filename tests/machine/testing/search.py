"""Finds a world for each planted bug: ``python -m tests.machine.testing.search [NAME…] [--seeds A:B]``.

It prints the first seed in which the bug is noticed, by which rule, and passes over worlds that fail without the bug.
"""

from __future__ import annotations

import argparse
from functools import partial

from pykraft.machine.testing.simulate import run_machines, scenario_of
from pykraft.machine.testing.workload import DrawnCommands
from pykraft.sim.run.simulation import Failure
from tests.machine.testing.bugs import BUGS, MachineBug, draw
from tests.sim.mutants.patch import Patch


def noticed(bug: MachineBug, seed: int) -> str | None:
    """The rule that the bug breaks in this world; None if it is not noticed."""
    with Patch() as patch:
        bug.plant(patch)
        result = run_machines(bug.machine, partial(DrawnCommands, draw), seed, scenario=scenario_of("all"))
    if not isinstance(result, Failure):
        return None
    return result.reason.split(": ")[1 if result.reason.startswith("ViolationError") else 0]


def main() -> None:
    """Search."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=list(BUGS))
    parser.add_argument("--seeds", default="0:100")
    options = parser.parse_args()
    begin, end = map(int, options.seeds.split(":"))
    for name in options.names or list(BUGS):
        for seed in range(begin, end):
            rule = noticed(BUGS[name], seed)
            if rule is not None:
                print(name, seed, rule, flush=True)
                break
        else:
            print(name, "lives", flush=True)


if __name__ == "__main__":
    main()
