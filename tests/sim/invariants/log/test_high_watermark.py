"""A high watermark of the newest leader that decreases is found."""

from __future__ import annotations

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.log.high_watermark import MonotonicHighWatermark
from tests.sim.invariants.fakes import BEFORE, node, view, world


def test_a_high_watermark_that_rises_or_stays_is_accepted() -> None:
    made = MonotonicHighWatermark(world())
    for epoch, high_watermark in ((1, 5), (1, 5), (1, 7), (2, None), (2, 7), (3, 9)):
        made.changed(node(), BEFORE, view("leader", epoch, high_watermark=high_watermark))


@pytest.mark.parametrize("epoch", [1, 2])
def test_a_high_watermark_that_falls_is_found(epoch: int) -> None:
    made = MonotonicHighWatermark(world())
    made.changed(node(), BEFORE, view("leader", 1, high_watermark=5))
    with pytest.raises(ViolationError, match="is at 4, but 5 was reached before"):
        made.changed(node(2), BEFORE, view("leader", epoch, high_watermark=4))


def test_an_old_leader_and_followers_do_not_count() -> None:
    made = MonotonicHighWatermark(world())
    made.changed(node(), BEFORE, view("leader", 2, high_watermark=5))
    made.changed(node(2), BEFORE, view("leader", 1, high_watermark=4))
    made.changed(node(3), BEFORE, view("follower", 2, high_watermark=3))
