"""An undisturbed quorum that commits nothing is found."""

from __future__ import annotations

from typing import Any

import pytest

from pykraft.sim.facts.calm import LOOK_US
from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.liveness.calm_quorum import CalmQuorumCommits
from tests.sim.facts.test_calm import calm_world
from tests.sim.invariants.fakes import entry, node, view


def look(made: CalmQuorumCommits, where: Any, now_us: int) -> None:
    where.clock.now_us = now_us
    made.after_event(node(1), view())


def test_a_quorum_that_commits_is_accepted_and_one_that_is_disturbed() -> None:
    where = calm_world()
    made = CalmQuorumCommits(where)
    for number in range(10):
        where.committed.entries.append(entry(number))
        look(made, where, number * made.bound_us)
        look(made, where, number * made.bound_us + 1)
    where.network.is_usual = False
    look(made, where, 99 * made.bound_us)


@pytest.mark.parametrize("leads", [False, True])
def test_one_that_stands_still_is_found(leads: bool) -> None:
    where = calm_world()
    process = node(2, epoch=27, log_end_offset=1).process
    where.newest_leader = lambda: process if leads else None
    made = CalmQuorumCommits(where)
    look(made, where, 0)
    look(made, where, made.bound_us)
    with pytest.raises(ViolationError, match="node 2 leads epoch 27" if leads else "nobody leads"):
        look(made, where, made.bound_us + LOOK_US)


def test_where_there_is_nothing_to_commit_nothing_has_to_be() -> None:
    where = calm_world()
    where.newest_leader = lambda: node(2, epoch=27, log_end_offset=0).process
    made = CalmQuorumCommits(where)
    for number in range(5):
        look(made, where, number * made.bound_us)
