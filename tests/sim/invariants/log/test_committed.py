"""Deliveries that differ are found."""

from __future__ import annotations

import pytest

from pykraft.host.delivery import CommittedBatch
from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.log.committed import CommittedAlike
from tests.sim.invariants.fakes import batch, node, world


def test_the_same_deliveries_everywhere_are_accepted() -> None:
    made = CommittedAlike(world())
    for node_id in (1, 2):
        made.delivered(node(node_id), [batch(0), batch(1, b"a", b"b")])


@pytest.mark.parametrize("other", [batch(0, b"x"), batch(0, b"a", epoch=2), batch(0, b"a", b"b"), batch(0)])
def test_another_batch_at_the_same_offset_is_found(other: CommittedBatch) -> None:
    made = CommittedAlike(world())
    made.delivered(node(1), [batch(0, b"a")])
    with pytest.raises(ViolationError, match="another batch"):
        made.delivered(node(2), [other])
