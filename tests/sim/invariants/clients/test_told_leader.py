"""A listener that hears of leadership before its records, or of older news after newer, is found."""

from __future__ import annotations

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.clients.told_leader import LeaderIsToldInTime
from tests.sim.invariants.fakes import batch, node, snapshot_id, world


def test_news_in_time_and_in_order_are_accepted() -> None:
    made = LeaderIsToldInTime(world())
    made.started(node())
    made.told_leader(node(), 1, None)
    made.told_leader(node(), 1, 2)
    made.delivered(node(), [batch(0, epoch=1), batch(1, epoch=3)])
    made.told_leader(node(), 3, 1)
    made.started(node())
    made.told_leader(node(), 2, 2)


def test_an_own_leadership_before_its_first_record_is_found() -> None:
    made = LeaderIsToldInTime(world())
    made.delivered(node(), [batch(0, epoch=1)])
    with pytest.raises(ViolationError, match="it leads epoch 2, and was given records up to epoch 1 only"):
        made.told_leader(node(), 2, 1)


@pytest.mark.parametrize(("epoch", "leader_id"), [(1, 3), (2, 3), (2, None)])
def test_older_news_and_a_second_leader_are_found(epoch: int, leader_id: int | None) -> None:
    made = LeaderIsToldInTime(world())
    made.told_leader(node(), 2, 2)
    with pytest.raises(ViolationError, match=f"is told of epoch {epoch} after epoch 2 of leader 2"):
        made.told_leader(node(), epoch, leader_id)


def test_a_snapshot_has_the_records_of_its_epoch() -> None:
    made = LeaderIsToldInTime(world())
    made.loaded(node(), snapshot_id(4, epoch=2))
    made.told_leader(node(), 2, 1)


def test_a_leader_that_only_a_flipped_bit_named_may_be_another_one_later() -> None:
    made = LeaderIsToldInTime(world())
    made.facts.claims.misnamed.add((2, 7))
    for leader_id in (7, 2, 7):
        made.told_leader(node(), 2, leader_id)
