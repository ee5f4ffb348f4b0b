"""A candidacy that a majority should have denied is found."""

from __future__ import annotations

import pytest

from pykraft.sim.facts.view import View
from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.elections.stable_leadership import StableLeadership
from tests.sim.invariants.fakes import BEFORE, node, view, world

LEADER, HEARING = view("leader", 1), view("follower", 1, has_fetched=True)
ASKING, CANDIDATE = view("prospective", 1), view("candidate", 2)


def lived(*changes: tuple[int, View, View], has_pre_votes: bool = True) -> None:
    where = world()
    where.members.has_pre_votes = has_pre_votes
    made = StableLeadership(where)
    for node_id, was, now in changes:
        made.changed(node(node_id), was, now)


def test_a_candidate_is_found_while_a_majority_hears_the_leader() -> None:
    story = [(1, BEFORE, LEADER), (2, BEFORE, HEARING), (3, BEFORE, ASKING), (3, ASKING, CANDIDATE)]
    with pytest.raises(ViolationError, match=r"while the majority \[1, 2\] heard the leader of epoch 1"):
        lived(*story)
    lived(*story, has_pre_votes=False)


@pytest.mark.parametrize(
    "story",
    [
        [(1, BEFORE, LEADER), (3, BEFORE, ASKING), (3, ASKING, CANDIDATE)],
        [(1, BEFORE, LEADER), (4, BEFORE, HEARING), (3, BEFORE, ASKING), (3, ASKING, CANDIDATE)],
        [(1, BEFORE, LEADER), (3, BEFORE, ASKING), (2, BEFORE, HEARING), (3, ASKING, CANDIDATE)],
        [(1, BEFORE, LEADER), (2, BEFORE, HEARING), (2, HEARING, BEFORE), (3, BEFORE, ASKING), (3, ASKING, CANDIDATE)],
    ],
)
def test_without_a_majority_that_hears_all_the_time_a_candidate_is_right(story: list[tuple[int, View, View]]) -> None:
    lived(*story)
