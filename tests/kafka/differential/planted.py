"""Small bugs for a copy of the sources; a sequence must notice each. `PLANTED` has each with its seed.

``python -m tests.kafka.differential --planted all`` plays each one's seed. Invariant: the sources themselves stay as
they are; a bug whose text is no longer there is an error.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.sim.strength import Edit, planted_copy


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """One bug, and the seed of a sequence that sees it."""

    edit: Edit
    seed: int

    @property
    def name(self) -> str:
        """As the command line has it."""
        return self.edit.name


PLANTED: Final = (
    Planted(
        edit=Edit(
            name="a_cut_inside_a_batch_is_believed",
            path="core/on/fetch_response.py",
            before="        point = batch_start\n",
            after="        pass\n",
            story="A follower that is told to cut inside a batch believes that it holds the batch up to there.",
        ),
        seed=22,
    ),
    Planted(
        edit=Edit(
            name="a_leader_that_means_another_voter_is_not_told",
            path="core/on/quorum_epoch.py",
            before="if not is_addressed_to(replica, message.voter) or replica.survey is not None:",
            after="if replica.survey is not None:",
            story="BeginQuorumEpoch for another voter key is answered as if it were for this one.",
        ),
        seed=2,
    ),
    Planted(
        edit=Edit(
            name="a_leader_without_successors_is_waited_for",
            path="core/election.py",
            before="    if position == 0:\n",
            after="    if position == 0 and count:\n",
            story="After EndQuorumEpoch without successors, which a restarted leader sends, nobody campaigns at once.",
        ),
        seed=11,
    ),
)


def plant(bug: Planted, folder: Path) -> Path:
    """Copy the sources into ``folder`` with this bug; the copy. Errors: ValueError when its text is not there once."""
    copy = folder / bug.name
    planted_copy(bug.edit, copy)
    return copy
