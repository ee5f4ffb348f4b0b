"""A batch of an epoch that its node has not reached is found."""

from __future__ import annotations

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.log.append_epoch import AppendedEpochIsKnown
from tests.sim.invariants.fakes import appends, encoded, node, truncates, world


def test_known_epochs_are_accepted_and_a_leader_appends_its_own() -> None:
    made = AppendedEpochIsKnown(world())
    made.submitted(node(role="follower", epoch=3), appends(encoded(0, b"a", epoch=1), encoded(1, b"b", epoch=3)))
    made.submitted(node(role="leader", epoch=3), appends(encoded(0, epoch=3)))
    made.submitted(node(role="leader", epoch=3), truncates(0))


@pytest.mark.parametrize(("role", "epoch"), [("follower", 4), ("leader", 2), ("leader", 4)])
def test_other_epochs_are_found(role: str, epoch: int) -> None:
    with pytest.raises(ViolationError, match=f"{role} in epoch 3, appends at offset 0 a batch of epoch {epoch}"):
        AppendedEpochIsKnown(world()).submitted(node(role=role, epoch=3), appends(encoded(0, b"a", epoch=epoch)))
