"""The families of faults that hear of no events: each is a table of kinds with a way to stop.

`pykraft.sim.faults.faults` holds the other families, and tells them what happens in the world.
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
    """A family of fault kinds."""

    kinds: dict[str, Act]

    def stop(self) -> None:
        """Stop: cancel what was planned."""


def families_of(harm: Harm) -> tuple[Family, ...]:
    """One instance of each family."""
    return (
        NetworkFaults(harm),
        DiskFaults(harm),
        ClockFaults(harm),
        VersionFaults(harm),
        SilentFaults(harm),
        RestoreFaults(harm),
    )


def acts_of(families: tuple[Family, ...]) -> Mapping[str, Act]:
    """By kind: the function that carries it out."""
    return {kind: act for family in families for kind, act in family.kinds.items()}
