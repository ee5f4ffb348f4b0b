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
        seed=0,
    ),
    Planted(
        name="nobody_follows_a_leader_that_names_no_successor",
        file="pykraft/core/election.py",
        sound="    if position == 0:\n",
        planted="    if position == 0 and count:\n",
        seed=0,
    ),
    Planted(
        name="a_shorter_log_gets_the_vote",
        file="pykraft/core/on/vote.py",
        sound="return replica.state.leader_id is None and message.last.is_at_least(replica.log.end)",
        planted="return replica.state.leader_id is None",
        seed=0,
    ),
    Planted(
        name="a_second_candidate_gets_the_vote",
        file="pykraft/core/on/vote.py",
        sound="return replica.state.voted.matches(message.candidate)",
        planted="return True",
        seed=0,
    ),
    Planted(
        name="a_leader_that_means_another_voter_is_not_told",
        file="pykraft/core/on/begin_epoch.py",
        sound="if not is_addressed_to(replica, message.voter) or replica.survey is not None:",
        planted="if replica.survey is not None:",
        seed=0,
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
