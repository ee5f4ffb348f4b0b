"""The high watermark never falls, and a majority has on disk what is below it."""

from __future__ import annotations

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.high_watermark import MajorityHoldsHighWatermark, MonotonicHighWatermark
from tests.sim.invariants.fakes import leader, node, world


def test_a_high_watermark_that_rises_or_stays_is_accepted() -> None:
    invariant = MonotonicHighWatermark()
    for epoch, high_watermark in ((1, 5), (1, 5), (1, 7), (2, None), (2, 7), (3, 9)):
        invariant.after_event(world(), leader(1, epoch=epoch, high_watermark=high_watermark))


@pytest.mark.parametrize("epoch", [1, 2])
def test_a_high_watermark_that_falls_is_found(epoch: int) -> None:
    invariant = MonotonicHighWatermark()
    invariant.after_event(world(), leader(1, epoch=1, high_watermark=5))
    with pytest.raises(ViolationError, match="is at 4, but 5 was reached before"):
        invariant.after_event(world(), leader(2, epoch=epoch, high_watermark=4))


def test_an_old_leader_followers_and_nodes_that_are_down_do_not_count() -> None:
    invariant = MonotonicHighWatermark()
    invariant.after_event(world(), leader(1, epoch=2, high_watermark=5))
    invariant.after_event(world(), leader(2, epoch=1, high_watermark=4))
    invariant.after_event(world(), node(3, epoch=2, high_watermark=3))
    invariant.after_event(world(), node(4))


def test_what_a_majority_has_on_disk_may_be_committed() -> None:
    invariant = MajorityHoldsHighWatermark()
    invariant.after_event(world(ends={1: 0, 2: 5, 3: 6}), leader(1, epoch=1, high_watermark=5))
    invariant.after_event(world(ends={1: 5}), leader(1, epoch=1, high_watermark=5))
    invariant.after_event(world(ends={1: 0, 2: 0, 3: 0}), node(2, epoch=1, high_watermark=9))
    invariant.after_event(world(ends={1: 0, 2: 0, 3: 0}), node(2))


@pytest.mark.parametrize("ends", [{1: 9, 2: 4, 3: 4}, {1: 9, 2: 9, 3: 4, 4: 4}, {1: 4}])
def test_what_only_a_minority_has_on_disk_is_found(ends: dict[int, int]) -> None:
    with pytest.raises(ViolationError, match="5 is committed"):
        MajorityHoldsHighWatermark().after_event(world(ends=ends), leader(1, epoch=1, high_watermark=5))
