"""The families of faults that nobody else speaks to: each has a table of kinds, and stops.

The others are in `pykraft.sim.faults.faults`, which passes on to them what happens in the world.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from pykraft.sim.faults.clock import ClockFaults
from pykraft.sim.faults.disk import DiskFaults
from pykraft.sim.faults.harm import Act, Harm
from pykraft.sim.faults.network import NetworkFaults
from pykraft.sim.faults.restore import RestoreFaults
from pykraft.sim.faults.silent import SilentFaults
from pykraft.sim.faults.version import VersionFaults


class Family(Protocol):
    """Kinds of faults that belong together."""

    kinds: dict[str, Act]

    def stop(self) -> None:
        """No more harm; take back what was prepared."""
        ...


def families_of(harm: Harm) -> tuple[Family, ...]:
    """One of each."""
    return (
        NetworkFaults(harm),
        DiskFaults(harm),
        ClockFaults(harm),
        VersionFaults(harm),
        SilentFaults(harm),
        RestoreFaults(harm),
    )


def acts_of(families: tuple[Family, ...]) -> Mapping[str, Act]:
    """What to call for each kind."""
    return {kind: act for family in families for kind, act in family.kinds.items()}
