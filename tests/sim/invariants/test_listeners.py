"""What the oracles of listeners report, and what they accept."""

from __future__ import annotations

from typing import Any

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.listeners import (
    DeliveredIsCommitted,
    DeliveredOnceInOrder,
    LateListenersHearWhoLeads,
    LeaderIsToldInTime,
    PlainListenerMissesOnlyTheCleaned,
)
from pykraft.sim.machine.ledger import Ledger
from tests.sim.invariants.fakes import batch, entry, node, snapshot_id, view, world


# delivered_committed: A delivered record that is not committed is found at the end of the event.
def test_what_is_committed_by_the_end_of_the_event_may_be_delivered() -> None:
    where = world()
    made = DeliveredIsCommitted(where)
    made.delivered(node(), [batch(0, b"a")])
    where.committed = Ledger([entry(0)])
    made.after_event(node(), view())
    made.after_event(node(), view())


def test_what_is_not_is_found() -> None:
    made = DeliveredIsCommitted(world())
    made.delivered(node(), [batch(0, b"a")])
    with pytest.raises(ViolationError, match="is given what is below 1, committed is 0"):
        made.after_event(node(), view())


def test_a_snapshot_of_more_than_that_is_found() -> None:
    made = DeliveredIsCommitted(world())
    made.loaded(node(), snapshot_id(3))
    with pytest.raises(ViolationError, match="is given what is below 3, committed is 0"):
        made.after_event(node(), view())


# in_order: Deliveries with gaps or repetitions are found.
def test_deliveries_in_order_are_accepted_and_a_new_process_begins_at_the_beginning() -> None:
    made = DeliveredOnceInOrder(world())
    for _ in range(2):
        made.started(node())
        made.delivered(node(), [batch(0), batch(1, b"a", b"b")])
        made.delivered(node(), [batch(3, b"c")])


@pytest.mark.parametrize("base_offset", [0, 2])
def test_a_batch_that_comes_twice_or_is_left_out_is_found(base_offset: int) -> None:
    made = DeliveredOnceInOrder(world())
    made.delivered(node(), [batch(0, b"a")])
    with pytest.raises(ViolationError, match=f"is given offset {base_offset}, 1 is next"):
        made.delivered(node(), [batch(base_offset, b"a")])


def test_a_snapshot_stands_for_what_is_before_its_end() -> None:
    made = DeliveredOnceInOrder(world())
    made.delivered(node(), [batch(0, b"a")])
    made.loaded(node(), snapshot_id(5))
    made.delivered(node(), [batch(5, b"f")])


@pytest.mark.parametrize("offset", [1, 2])
def test_a_snapshot_that_goes_back_or_brings_nothing_is_found(offset: int) -> None:
    made = DeliveredOnceInOrder(world())
    made.delivered(node(), [batch(0, b"a", b"b")])
    with pytest.raises(ViolationError, match=f"a snapshot up to {offset}, 2 is next"):
        made.loaded(node(), snapshot_id(offset))


# late_listener: A listener that begins late, and is not told who leads, is found.
def oracle(told: tuple[int, int | None] | None, role: str = "follower") -> LateListenersHearWhoLeads:
    """It watches one node of epoch 2, led by node 3, that tells new listeners this."""
    found = node(1, role=role, epoch=2, leader_id=3)

    def register(listener: Any, _from_offset: int) -> None:
        if told is not None:
            listener.on_leader_change(*told)

    found.host.register = register
    made = world()
    made.nodes = {1: found}
    return LateListenersHearWhoLeads(made)


def test_who_is_told_the_leader_of_the_moment_is_accepted() -> None:
    oracle((2, 3)).ended()


@pytest.mark.parametrize("told", [None, (2, None), (1, 3)])
def test_silence_and_older_news_are_found(told: tuple[int, int | None] | None) -> None:
    with pytest.raises(ViolationError, match=r"a new listener of node 1 is told .*, and node 3 leads epoch 2"):
        oracle(told).ended()


def test_only_followers_have_to_know() -> None:
    oracle(None, role="unattached").ended()


# plain_listener: A record that a plain listener misses although the log holds it, or without being told, is found.
def cleaned(start_offset: int) -> Any:
    return node(log_start_offset=start_offset)


def test_it_begins_at_the_log_start_and_goes_on_there() -> None:
    made = PlainListenerMissesOnlyTheCleaned(world())
    for start_offset in (0, 7):
        made.listens(node(), start_offset)
        made.overheard(node(), [batch(start_offset, b"a", b"b"), batch(start_offset + 2, b"c")])
        made.skipped(cleaned(20), start_offset + 3, 20)
        made.overheard(node(), [batch(20, b"d")])


def test_a_process_that_is_gone_is_believed() -> None:
    made = PlainListenerMissesOnlyTheCleaned(world())
    made.listens(node(), 0)
    made.skipped(node(), 0, 5)
    made.overheard(node(), [batch(5, b"a")])


@pytest.mark.parametrize("base_offset", [4, 6])
def test_a_gap_that_is_not_told_of_and_a_batch_that_comes_twice_are_found(base_offset: int) -> None:
    made = PlainListenerMissesOnlyTheCleaned(world())
    made.listens(node(), 5)
    with pytest.raises(ViolationError, match=f"gives offset {base_offset}, 5 is next"):
        made.overheard(node(), [batch(base_offset, b"a")])


@pytest.mark.parametrize(("next_offset", "start_offset"), [(4, 9), (5, 5), (5, 10)])
def test_a_gap_that_is_none_or_too_wide_is_found(next_offset: int, start_offset: int) -> None:
    made = PlainListenerMissesOnlyTheCleaned(world())
    made.listens(node(), 5)
    with pytest.raises(ViolationError, match="5 is next, and the log begins at 9"):
        made.skipped(cleaned(9), next_offset, start_offset)


# told_leader: A listener that hears of leadership before its records, or of older news after newer, is found.
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
