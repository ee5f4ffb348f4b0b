"""A leader without the votes of its own voters is found."""

from __future__ import annotations

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.elections.elected import LeaderHasItsVotes
from pykraft.sim.machine.spoken import Spoken
from tests.sim.invariants.fakes import BEFORE, keyed, node, view, world


def vote(epoch: int, candidate_id: int) -> Spoken:
    return Spoken(epoch=epoch, candidate_id=candidate_id)


def test_a_majority_of_the_voters_elects() -> None:
    made = LeaderHasItsVotes(world())
    made.before_send(node(2), vote(1, 1))
    made.changed(node(1), BEFORE, view("leader", voters=keyed(1, 2, 3)))
    made.changed(node(1), view("leader"), view("leader", voters=keyed(1, 2, 3, 4, 5)))
    made.changed(node(1), BEFORE, view("leader", 2, voters=keyed(1)))


@pytest.mark.parametrize("voter_id", [4, 9])
def test_others_and_other_disks_do_not(voter_id: int) -> None:
    made = LeaderHasItsVotes(world())
    made.before_send(node(voter_id), vote(1, 1))
    made.before_send(node(2), vote(1, 3))
    made.before_send(node(2), vote(2, 1))
    made.before_send(node(2), Spoken(epoch=1))
    with pytest.raises(ViolationError, match=r"with the votes of \[1\], the voters are \[1, 2, 3\]"):
        made.changed(node(1), BEFORE, view("leader", voters=keyed(1, 2, 3)))
