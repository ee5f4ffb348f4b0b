"""An epoch that begins without a candidate is found."""

from __future__ import annotations

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.elections.new_epoch import EpochBeginsWithCandidate
from tests.sim.invariants.fakes import BEFORE, node, view, world


def test_candidates_and_leaders_that_resigned_begin_epochs() -> None:
    made = EpochBeginsWithCandidate(world())
    made.changed(node(1), view("prospective", 0), view("candidate", 1))
    made.changed(node(2), view("unattached", 0), view("unattached", 1))
    made.changed(node(1), view("resigned", 1), view("unattached", 2))
    made.changed(node(3), BEFORE, view("down", 0))


@pytest.mark.parametrize("role", ["prospective", "unattached", "follower"])
def test_whoever_else_begins_one_is_found(role: str) -> None:
    with pytest.raises(ViolationError, match=f"opened epoch 1 as {role}, it was unattached before"):
        EpochBeginsWithCandidate(world()).changed(node(), view("unattached", 0), view(role, 1))
