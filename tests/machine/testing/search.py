"""Finds a world for each planted bug: ``python -m tests.machine.testing.search [NAME…] [--seeds A:B]``."""

from functools import partial

from pykraft.machine.testing.simulate import run_machines, scenario_of
from pykraft.machine.testing.workload import DrawnCommands
from tests.machine.testing.bugs import BUGS, MachineBug, draw
from tests.machine.testing.find import Noticed, play_with, search


def noticed(bug: MachineBug, seed: int) -> Noticed:
    """See `tests.machine.testing.find`."""
    commands = partial(DrawnCommands, draw)
    if bug.run is not None:
        return play_with(bug.plant, partial(bug.run, seed))
    return play_with(bug.plant, partial(run_machines, bug.machine, commands, seed, scenario=scenario_of("all")))


if __name__ == "__main__":
    search(BUGS, noticed)
