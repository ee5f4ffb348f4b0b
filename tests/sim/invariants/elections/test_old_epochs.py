"""A request of an older epoch that is served is found."""

from __future__ import annotations

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.elections.old_epochs import OldEpochsAreFenced
from pykraft.sim.machine.spoken import Spoken
from tests.sim.invariants.fakes import node, world


@pytest.mark.parametrize("served_epoch", [None, 3, 4])
def test_an_error_and_the_present_epoch_are_in_order(served_epoch: int | None) -> None:
    OldEpochsAreFenced(world()).before_send(node(), Spoken(epoch=3, served_epoch=served_epoch))


def test_an_older_epoch_is_not() -> None:
    with pytest.raises(ViolationError, match="node 1, in epoch 3, serves a request of epoch 2"):
        OldEpochsAreFenced(world()).before_send(node(), Spoken(epoch=3, served_epoch=2))
