"""A leader without a committed record is found, even if the commit becomes known later."""

from __future__ import annotations

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.log.leader_completeness import LeaderCompleteness
from pykraft.sim.machine.ledger import Entry, Ledger
from tests.sim.invariants.fakes import BEFORE, entry, node, snapshot_id, view, world

COMMITTED = [entry(0), entry(1)]


@pytest.mark.parametrize("log", [COMMITTED, [*COMMITTED, entry(2, epoch=2)]])
def test_a_leader_with_all_that_is_committed_is_accepted(log: list[Entry]) -> None:
    where = world()
    LeaderCompleteness(where).changed(node(2), BEFORE, view("leader", 1))
    where.committed, where.ledgers[2] = Ledger(COMMITTED), Ledger(log)
    LeaderCompleteness(where).changed(node(2), BEFORE, view("leader", 2))
    LeaderCompleteness(where).changed(node(3), BEFORE, view("follower", 2))


@pytest.mark.parametrize("log", [[], COMMITTED[:1], [entry(0), entry(1, crc=9)]])
def test_a_new_leader_without_a_committed_record_is_found(log: list[Entry]) -> None:
    where = world()
    where.committed, where.ledgers[2] = Ledger(COMMITTED), Ledger(log)
    with pytest.raises(ViolationError, match="leader 2 of epoch 2 does not hold what is committed up to 2 in epoch 1"):
        LeaderCompleteness(where).changed(node(2), BEFORE, view("leader", 2))


def test_it_is_found_when_an_older_leader_learns_of_the_commit_later() -> None:
    where = world()
    made = LeaderCompleteness(where)
    newest = node(2, role="leader", epoch=2)
    made.changed(newest, BEFORE, view("leader", 2))
    where.committed = Ledger(COMMITTED)
    was = view("leader", 1)
    with pytest.raises(ViolationError, match="leader 2 of epoch 2"):
        made.changed(node(1), was, view("leader", 1, high_watermark=2))
    newest.status = newest.status._replace(role="resigned")
    made.changed(node(1), was, view("leader", 1, high_watermark=2))


@pytest.mark.parametrize("offset", [2, 5])
def test_a_snapshot_before_the_log_holds_it_too(offset: int) -> None:
    where = world()
    where.committed, where.ledgers[2] = Ledger(COMMITTED), Ledger(begin=snapshot_id(offset))
    LeaderCompleteness(where).changed(node(2), BEFORE, view("leader", 2))
