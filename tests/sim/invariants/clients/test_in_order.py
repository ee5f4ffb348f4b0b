"""Deliveries with gaps or repetitions are found."""

from __future__ import annotations

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.clients.in_order import DeliveredOnceInOrder
from tests.sim.invariants.fakes import batch, node, snapshot_id, world


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
