"""A high watermark without a majority that holds those records on disk is found."""

from __future__ import annotations

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.log.majority import MajorityHoldsHighWatermark
from pykraft.sim.machine.ledger import Entry, Ledger
from pykraft.sim.machine.spoken import LogEnd, Spoken
from tests.sim.invariants.fakes import BEFORE, entry, node, view, world

LOG = [entry(0), entry(1), entry(2)]


def committed(platters: dict[int, list[Entry]], *wiped: int, told: Spoken | None = None) -> None:
    where = world()
    where.ledgers[1], where.held = Ledger(LOG), platters
    made = MajorityHoldsHighWatermark(where)
    for node_id in wiped:
        made.wiped(node(node_id))
        if told is not None:
            made.before_send(node(node_id), told)
        made.wiped(node(node_id))
    made.changed(node(2), BEFORE, view("follower", high_watermark=9))
    made.changed(node(1), BEFORE, view("leader", high_watermark=2))
    made.changed(node(1), BEFORE, view("leader", high_watermark=2))


@pytest.mark.parametrize("platters", [{2: LOG, 3: LOG[:2]}, {1: LOG, 2: LOG[:2]}, {1: LOG, 2: LOG, 3: LOG}])
def test_what_a_majority_has_on_disk_may_be_committed(platters: dict[int, list[Entry]]) -> None:
    committed(platters)


@pytest.mark.parametrize("platters", [{1: LOG}, {1: LOG, 2: LOG[:1]}, {1: LOG, 2: [entry(0), entry(1, crc=7)]}])
def test_what_only_a_minority_has_on_disk_is_found(platters: dict[int, list[Entry]]) -> None:
    with pytest.raises(ViolationError, match=r"calls 2 committed, of the voters \[1, 2, 3\] only \[1\] have"):
        committed(platters)


def test_the_word_of_a_voter_whose_disk_was_wiped_may_still_be_counted() -> None:
    committed({1: LOG}, 3, told=Spoken(epoch=1, fetched=LogEnd(epoch=1, offset=2)))


@pytest.mark.parametrize(
    "told",
    [
        None,
        Spoken(epoch=1),
        Spoken(epoch=1, fetched=LogEnd(epoch=1, offset=1)),
        Spoken(epoch=0, fetched=LogEnd(epoch=0, offset=2)),
    ],
)
def test_what_it_had_not_told_is_not_counted(told: Spoken | None) -> None:
    with pytest.raises(ViolationError, match=r"only \[1\] have"):
        committed({1: LOG}, 3, told=told)


@pytest.mark.parametrize(("is_damaged", "offset"), [(True, 2), (True, 1), (False, 2)])
def test_the_word_of_a_voter_that_has_found_damage_since_is_counted(offset: int, *, is_damaged: bool) -> None:
    where = world()
    where.ledgers[1], where.held = Ledger(LOG), {1: LOG}
    where.members.nodes_of = lambda _: [node(1), node(2), node(3, is_damaged=is_damaged)]
    made = MajorityHoldsHighWatermark(where)
    made.before_send(node(3), Spoken(epoch=1, fetched=LogEnd(epoch=1, offset=offset)))
    if is_damaged and offset == 2:
        made.changed(node(1), BEFORE, view("leader", high_watermark=2))
        return
    with pytest.raises(ViolationError, match=r"only \[1\] have"):
        made.changed(node(1), BEFORE, view("leader", high_watermark=2))
