"""Epochs rise on disk, in memory and in what is said, in this order."""

from __future__ import annotations

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.monotonic_epoch import MonotonicEpoch
from pykraft.sim.spoken import Spoken
from tests.sim.invariants.fakes import node, world


def test_rising_epochs_are_accepted() -> None:
    invariant = MonotonicEpoch()
    invariant.after_event(world(), node())
    invariant.after_event(world(epoch=1), node(epoch=1, is_lane_idle=True))
    invariant.after_event(world(epoch=1), node(epoch=2))
    invariant.before_send(world(epoch=2), node(), Spoken(epoch=2))
    invariant.before_send(world(epoch=2), node(), Spoken(epoch=1))


def test_an_epoch_that_falls_on_disk_is_found_even_when_the_node_is_down() -> None:
    invariant = MonotonicEpoch()
    invariant.after_event(world(epoch=2), node())
    invariant.after_event(world(epoch=1), node(2))
    with pytest.raises(ViolationError, match="fell from epoch 2 to 1"):
        invariant.after_event(world(epoch=1), node())


def test_an_epoch_in_memory_below_the_one_on_disk_is_found() -> None:
    with pytest.raises(ViolationError, match="is in epoch 1, its disk in 2"):
        MonotonicEpoch().after_event(world(epoch=2), node(epoch=1))


def test_an_epoch_that_nobody_writes_is_found() -> None:
    with pytest.raises(ViolationError, match="is in epoch 2, its disk in 1"):
        MonotonicEpoch().after_event(world(epoch=1), node(epoch=2, is_lane_idle=True))


def test_an_epoch_that_is_spoken_before_it_is_durable_is_found() -> None:
    with pytest.raises(ViolationError, match="speaks of epoch 2, its disk knows 1"):
        MonotonicEpoch().before_send(world(epoch=1), node(), Spoken(epoch=2))
