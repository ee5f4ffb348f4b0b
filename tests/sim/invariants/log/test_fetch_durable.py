"""A Fetch that acknowledges more or less than the platter holds is found."""

from __future__ import annotations

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.log.fetch_durable import FetchIsDurableFirst
from pykraft.sim.machine.spoken import LogEnd, Spoken
from tests.sim.invariants.fakes import entry, node, world


def made(durable: int) -> FetchIsDurableFirst:
    where = world()
    where.held[1] = [entry(offset) for offset in range(durable)]
    return FetchIsDurableFirst(where)


def fetch(offset: int, *, epoch: int = 1, target_id: int = 2) -> Spoken:
    return Spoken(epoch=1, fetched=LogEnd(epoch=epoch, offset=offset), target_id=target_id)


def test_what_the_platter_holds_may_be_told() -> None:
    made(5).before_send(node(leader_id=2), fetch(5))
    made(0).before_send(node(leader_id=2), fetch(0, epoch=0))
    made(5).before_send(node(leader_id=2), Spoken(epoch=1))


def test_a_question_to_somebody_else_or_of_a_damaged_node_acknowledges_nothing() -> None:
    made(5).before_send(node(leader_id=2), fetch(9, target_id=3))
    made(5).before_send(node(leader_id=2, is_damaged=True), fetch(4))


def test_a_snapshot_that_the_node_has_not_heard_of_may_hold_more() -> None:
    oracle = made(7)
    oracle.facts.news.add(1)  # type: ignore[attr-defined]
    oracle.before_send(node(leader_id=2), fetch(5))


@pytest.mark.parametrize(("offset", "epoch"), [(6, 1), (4, 1), (5, 2)])
def test_anything_else_is_found(offset: int, epoch: int) -> None:
    with pytest.raises(
        ViolationError, match=f"at {offset} after epoch {epoch}, its disk holds a log up to 5 of epoch 1"
    ):
        made(5).before_send(node(leader_id=2), fetch(offset, epoch=epoch))
