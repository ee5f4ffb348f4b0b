"""The families of faults that follow a plan of their own each, with a random generator of its own.

So a world without such a fault stays what it was when a family is added, and each family decides as often as suits it.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Protocol

from pykraft.sim.faults.backups import BackupFaults
from pykraft.sim.faults.families import Family
from pykraft.sim.faults.flipped import FlippedFaults
from pykraft.sim.faults.forged import ForgedFaults
from pykraft.sim.faults.harm import Harm
from pykraft.sim.faults.machines import MachineFaults
from pykraft.sim.faults.membership import MembershipFaults
from pykraft.sim.faults.twins import TwinFaults
from pykraft.sim.faults.unreadable import UnreadableFaults

SECOND_US = 1_000_000


class OwnFamily(Family, Protocol):
    """A family that gets a random generator for each of its decisions."""

    def use_dice(self, rng: Random) -> None:
        """Use this generator for the coming decision."""


@dataclass(frozen=True, slots=True)
class OwnPlan:
    """A family, and the least and the longest time between two of its decisions."""

    family: OwnFamily
    period_us_min: int
    period_us_max: int


def own_plans(harm: Harm, membership: MembershipFaults) -> tuple[OwnPlan, ...]:
    """All of them; a new one is added at the end, so that the numbers of the others' decisions stay."""
    return (
        OwnPlan(ForgedFaults(harm), 3 * SECOND_US, 5 * SECOND_US),
        OwnPlan(TwinFaults(harm), SECOND_US, 4 * SECOND_US),
        OwnPlan(BackupFaults(harm), SECOND_US // 5, SECOND_US),
        OwnPlan(MachineFaults(harm, membership), SECOND_US // 10, SECOND_US // 2),
        OwnPlan(FlippedFaults(harm), SECOND_US // 50, SECOND_US // 5),
        OwnPlan(UnreadableFaults(harm), SECOND_US // 2, 2 * SECOND_US),
    )
