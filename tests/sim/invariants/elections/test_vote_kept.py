"""A vote on disk for a node that never was a candidate is found."""

from __future__ import annotations

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.elections.vote_kept import VotesAreForCandidates
from tests.sim.invariants.fakes import BEFORE, node, view, world


def test_votes_for_candidates_and_for_oneself_are_accepted() -> None:
    made = VotesAreForCandidates(world())
    made.changed(node(2), BEFORE, view("candidate", 3, disk_epoch=2))
    made.changed(node(2), BEFORE, view("candidate", 3, voted_id=2))
    made.changed(node(1), BEFORE, view("unattached-voted", 3, voted_id=2))
    made.changed(node(3), BEFORE, view("unattached", 3))


def test_a_vote_for_somebody_who_only_asked_is_found() -> None:
    made = VotesAreForCandidates(world())
    made.changed(node(2), BEFORE, view("prospective", 3))
    made.changed(node(2), BEFORE, view("candidate", 4))
    with pytest.raises(ViolationError, match="keeps a vote for 2 in epoch 3, which was not a candidate then"):
        made.changed(node(1), BEFORE, view("unattached-voted", 3, voted_id=2))
