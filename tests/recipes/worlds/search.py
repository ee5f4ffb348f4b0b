"""Finds a world for each planted bug: ``python -m tests.recipes.worlds.search [NAME…] [--seeds A:B]``."""

from functools import partial

from tests.machine.testing.find import Noticed, play_with, search
from tests.recipes.worlds.bugs import BUGS, RecipeBug


def noticed(bug: RecipeBug, seed: int) -> Noticed:
    """See `tests.machine.testing.find`."""
    return play_with(bug.plant, partial(bug.run, seed))


if __name__ == "__main__":
    search(BUGS, noticed)
