"""What is called durable and is not, or was cut off and is still there, is found."""

from __future__ import annotations

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.durable import PersistedIsDurable
from tests.sim.invariants.fakes import node, world


def test_a_log_that_ends_where_its_node_says_is_accepted() -> None:
    PersistedIsDurable().persisted(world(ends={1: 5}), node(log_end_offset=5))


@pytest.mark.parametrize("durable", [4, 6])
def test_a_log_that_ends_elsewhere_on_the_platter_is_found(durable: int) -> None:
    with pytest.raises(ViolationError, match=f"ends at 5, on the platter at {durable}"):
        PersistedIsDurable().persisted(world(ends={1: durable}), node(log_end_offset=5))
