"""Small bugs to plant in a copy of the sources: does a sequence see them? `PLANTED` has each with its seed.

``python -m tests.kafka.differential --planted all`` plays each one's seed. Invariant: the sources themselves stay as
they are; a bug whose text is no longer there is an error.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pykraft.local.cluster import SOURCES


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """One bug: a piece of one file, and what stands there instead."""

    name: str
    file: str
    sound: str
    planted: str
    seed: int
    """Of a sequence that sees it."""


PLANTED: Final = (
    Planted(
        name="a_cut_inside_a_batch_is_believed",
        file="pykraft/core/on/fetch_response.py",
        sound="        point = batch_start\n",
        planted="        pass\n",
        seed=5,
    ),
    Planted(
        name="a_leader_that_means_another_voter_is_not_told",
        file="pykraft/core/on/begin_epoch.py",
        sound="if not is_addressed_to(replica, message.voter) or replica.survey is not None:",
        planted="if replica.survey is not None:",
        seed=2,
    ),
)


def plant(bug: Planted, folder: Path) -> Path:
    """Copy the sources into ``folder`` with this bug; the copy. Errors: ValueError when its text is not there once."""
    copy = folder / bug.name
    shutil.copytree(SOURCES, copy, ignore=shutil.ignore_patterns("__pycache__"))
    file = copy / bug.file
    text = file.read_text()
    if text.count(bug.sound) != 1:
        raise ValueError(f"{bug.name}: its text is {text.count(bug.sound)} times in {bug.file}")
    file.write_text(text.replace(bug.sound, bug.planted))
    return copy
