"""Every named kind of fault can be injected, and every injected one has a name."""

from __future__ import annotations

from pykraft.sim.faults.clock import ClockFaults
from pykraft.sim.faults.disk import DiskFaults
from pykraft.sim.faults.membership import MembershipFaults
from pykraft.sim.faults.network import NetworkFaults
from pykraft.sim.faults.process import ProcessFaults
from pykraft.sim.faults.silent import SilentFaults
from pykraft.sim.faults.snapshot import SnapshotFaults
from pykraft.sim.faults.stranger import StrangerFaults
from pykraft.sim.faults.version import VersionFaults
from pykraft.sim.faults.wipe import WipeFaults
from pykraft.sim.scenario.fault_kinds import (
    CLOCK,
    CONSEQUENCES,
    KINDS,
    LOUD_DISK,
    MEMBERSHIP,
    NETWORK,
    PROCESS,
    SILENT_DISK,
    SNAPSHOT,
    STRANGER,
    VERSION,
)
from pykraft.sim.scenario.scenario import DEFAULT_FAULTS
from tests.sim.faults.worlds import harm_to
from tests.sim.worlds import calm_world


def test_names_and_acts_are_the_same() -> None:
    harm = harm_to(calm_world())
    assert list(ProcessFaults(harm).kinds) == list(PROCESS)
    assert list(NetworkFaults(harm).kinds) == list(NETWORK)
    assert list(DiskFaults(harm).kinds) == list(LOUD_DISK)
    assert [*SilentFaults(harm).kinds, *WipeFaults(harm).kinds] == list(SILENT_DISK)
    assert list(ClockFaults(harm).kinds) == list(CLOCK)
    assert list(VersionFaults(harm).kinds) == list(VERSION)
    assert list(MembershipFaults(harm).kinds) == list(MEMBERSHIP)
    assert list(SnapshotFaults(harm).kinds) == list(SNAPSHOT)
    assert list(StrangerFaults(harm).kinds) == list(STRANGER)


def test_names_are_given_once() -> None:
    assert len({*KINDS, *CONSEQUENCES}) == len(KINDS) + len(CONSEQUENCES)
    assert DEFAULT_FAULTS.keys() <= set(KINDS)
