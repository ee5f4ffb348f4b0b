"""An epoch that decreases on disk or in memory is found."""

from __future__ import annotations

import pytest

from pykraft.sim.facts.view import DOWN
from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.elections.monotonic_epoch import MonotonicEpoch
from tests.sim.invariants.fakes import BEFORE, node, view, world


def test_rising_epochs_are_accepted() -> None:
    made = MonotonicEpoch(world())
    made.changed(node(), BEFORE, BEFORE)
    made.changed(node(), BEFORE, view(epoch=1, is_settled=True))
    made.changed(node(), BEFORE, view(epoch=2, disk_epoch=1))
    made.changed(node(), BEFORE, view(DOWN, 0, disk_epoch=2))


def test_an_epoch_that_falls_on_disk_is_found_even_when_the_node_is_down() -> None:
    made = MonotonicEpoch(world())
    made.changed(node(), BEFORE, view(epoch=2))
    made.changed(node(2), BEFORE, view(epoch=1))
    with pytest.raises(ViolationError, match="fell from epoch 2 to 1"):
        made.changed(node(), BEFORE, view(DOWN, 0, disk_epoch=1))


@pytest.mark.parametrize(("memory", "disk", "is_settled"), [(1, 2, False), (2, 1, True)])
def test_memory_and_disk_that_do_not_agree_are_found(memory: int, disk: int, is_settled: bool) -> None:
    with pytest.raises(ViolationError, match=f"is in epoch {memory}, its disk in {disk}"):
        MonotonicEpoch(world()).changed(node(), BEFORE, view(epoch=memory, disk_epoch=disk, is_settled=is_settled))


def test_a_node_with_an_empty_disk_begins_anew_and_only_that_one() -> None:
    made = MonotonicEpoch(world())
    for node_id in (1, 2):
        made.changed(node(node_id), BEFORE, view(epoch=2))
    made.wiped(node())
    made.changed(node(), BEFORE, view(DOWN, 0, disk_epoch=0))
    with pytest.raises(ViolationError, match="node 2 fell"):
        made.changed(node(2), BEFORE, view(DOWN, 0, disk_epoch=0))
