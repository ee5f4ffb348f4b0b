"""Records that are reported durable and are not, or that come back after a truncation, are found."""

from __future__ import annotations

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.disks.durable import PersistedIsDurable
from tests.sim.invariants.fakes import entry, node, world


def made(durable: int) -> PersistedIsDurable:
    where = world()
    where.held[1] = [entry(offset) for offset in range(durable)]
    return PersistedIsDurable(where)


def test_a_log_that_ends_where_its_node_says_is_accepted_and_a_damaged_one_anyway() -> None:
    made(5).persisted(node(log_end_offset=5))
    made(7).persisted(node(log_end_offset=5, is_damaged=True))


def test_a_snapshot_that_the_node_has_not_heard_of_may_hold_more() -> None:
    oracle = made(7)
    oracle.facts.news.add(1)  # type: ignore[attr-defined]
    oracle.persisted(node(log_end_offset=5))


@pytest.mark.parametrize("durable", [4, 6])
def test_a_log_that_ends_elsewhere_on_the_platter_is_found(durable: int) -> None:
    with pytest.raises(ViolationError, match=f"ends at 5, on the platter at {durable}"):
        made(durable).persisted(node(log_end_offset=5))
