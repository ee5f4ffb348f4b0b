"""A candidate that a majority holds against is found, whoever names the majority."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest

from pykraft.sim.facts.view import View
from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.kept_leader import KeptLeader
from tests.sim.invariants.fakes import BEFORE, node, view, world

LEADER, ASKING, CANDIDATE = view("leader", 1), view("prospective", 1), view("candidate", 2)


class Held(KeptLeader):
    """Leaders hold on to themselves, and node 2 always denies."""

    _verb = "kept"
    questions: list[tuple[list[int], int, int]]

    def _holds(self, now: View) -> bool:
        return now.leads

    def _deniers(self, holding: Sequence[int], epoch: int, began: int) -> Iterable[int]:
        self.questions = [([*holding], epoch, began)]
        return (*holding, 2)


def lived(*changes: tuple[int, View, View]) -> Held:
    made = Held(world())
    for node_id, was, now in changes:
        made.changed(node(node_id), was, now)
    return made


def test_the_majority_is_named() -> None:
    with pytest.raises(ViolationError, match=r"while the majority \[1, 2\] kept the leader of epoch 1"):
        lived((1, BEFORE, LEADER), (3, BEFORE, ASKING), (3, ASKING, CANDIDATE))


def test_a_leader_counts_only_if_it_led_before_the_question_and_leads_still() -> None:
    late = lived((3, BEFORE, ASKING), (1, BEFORE, LEADER), (3, ASKING, CANDIDATE))
    gone = lived((1, BEFORE, LEADER), (1, LEADER, BEFORE), (3, BEFORE, ASKING), (3, ASKING, CANDIDATE))
    assert late.questions == [([], 1, 1)]
    assert gone.questions == [([], 1, 3)]
