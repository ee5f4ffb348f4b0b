"""An epoch beyond every budget is found."""

from __future__ import annotations

import pytest

from pykraft.core.epoch_budget import EPOCHS_PER_DAY
from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.elections.epoch_growth import EpochsGrowWithinBudget
from tests.sim.invariants.fakes import BEFORE, node, view, world


def test_each_process_has_a_budget_and_no_more() -> None:
    made = EpochsGrowWithinBudget(world())
    made.started(node(1))
    made.changed(node(1), BEFORE, view(epoch=EPOCHS_PER_DAY))
    with pytest.raises(ViolationError, match="node 2 is in epoch 2097152"):
        made.changed(node(2), BEFORE, view(epoch=2 * EPOCHS_PER_DAY))
    made.started(node(2))
    made.changed(node(2), BEFORE, view(epoch=2 * EPOCHS_PER_DAY))
