"""Damage reported on an intact disk is found."""

from __future__ import annotations

import pytest

from pykraft.core.effects import EnterQuarantine, LeaveQuarantine
from pykraft.core.quarantine import Quarantine
from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.disks.real_damage import DamageIsReal
from pykraft.types import Epoch, Io, Offset
from tests.sim.invariants.fakes import appends, node, world

WRITE = EnterQuarantine(
    io=Io(1), quarantine=Quarantine(epoch=Epoch(1), until_offset=None, damages=(), is_cut=False), end_offset=Offset(0)
)


def test_damage_of_a_rotten_disk_is_accepted_until_it_is_mended() -> None:
    made = DamageIsReal(world())
    made.started(node())
    made.submitted(node(), appends())
    made.submitted(node(is_rotten=True), WRITE)
    made.started(node(is_damaged=True))
    made.persisted(node(is_damaged=True))
    made.submitted(node(), LeaveQuarantine(io=Io(2)))
    made.started(node(is_damaged=True))
    made.persisted(node())
    with pytest.raises(ViolationError, match="calls its log damaged"):
        made.started(node(is_damaged=True))


def test_a_disk_that_holds_what_was_written_is_not_damaged() -> None:
    with pytest.raises(ViolationError, match="its disk holds what was written"):
        DamageIsReal(world()).submitted(node(), WRITE)
