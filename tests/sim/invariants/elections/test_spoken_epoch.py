"""A message with an epoch that is not durable yet is found."""

from __future__ import annotations

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.elections.spoken_epoch import EpochIsDurableFirst
from pykraft.sim.machine.spoken import Spoken
from tests.sim.invariants.fakes import node, world


def test_durable_epochs_may_be_spoken() -> None:
    for epoch in (1, 2):
        EpochIsDurableFirst(world(epoch=2)).before_send(node(), Spoken(epoch=epoch))


def test_an_epoch_that_is_spoken_before_it_is_durable_is_found() -> None:
    with pytest.raises(ViolationError, match="speaks of epoch 2, its disk knows 1"):
        EpochIsDurableFirst(world(epoch=1)).before_send(node(), Spoken(epoch=2))
