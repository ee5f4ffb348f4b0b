"""A delivered record that is not committed is found at the end of the event."""

from __future__ import annotations

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.clients.delivered_committed import DeliveredIsCommitted
from pykraft.sim.machine.ledger import Ledger
from tests.sim.invariants.fakes import batch, entry, node, snapshot_id, view, world


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
