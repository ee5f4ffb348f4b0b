"""A cluster that does not heal in time is found and described."""

from __future__ import annotations

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.liveness.healing import Healing
from tests.sim.invariants.fakes import world


def test_the_bound_is_final() -> None:
    Healing(world()).ended()
    with pytest.raises(ViolationError, match="Healing: no progress"):
        Healing(world()).not_healed("no progress")
