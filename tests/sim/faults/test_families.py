"""Every kind of fault belongs to one family."""

from __future__ import annotations

from pykraft.sim.faults.families import acts_of, families_of
from pykraft.sim.scenario.fault_kinds import CLOCK, LOUD_DISK, NETWORK, RESTORED, SILENT_DISK, VERSION
from tests.sim.faults.worlds import harm_to
from tests.sim.worlds import calm_world


def test_each_kind_has_one_act() -> None:
    families = families_of(harm_to(calm_world()))
    acts = acts_of(families)
    assert len(acts) == sum(len(family.kinds) for family in families)
    expected = {*NETWORK, *LOUD_DISK, *CLOCK, *VERSION, *SILENT_DISK, *RESTORED} - {"wiped disk", "emptied disk"}
    assert set(acts) == expected
    for family in families:
        family.stop()
