"""When the faults are over, the cluster heals and serves again, within a bound.

Every node that was down starts, and all nodes must get everything that was ever acknowledged, and new records as well.
A cluster that stays safe and never serves again is useless: this oracle finds lasting deadlocks.

Source: Kafka ``RaftEventSimulationTest`` (every scenario ends with progress); EventuallyLeaderElected of Vanlightly's
specification of KRaft; TigerBeetle's liveness mode.
"""

from __future__ import annotations

from pykraft.sim.invariants.invariant import Invariant


class Healing(Invariant):
    """Once the faults stop, every node catches up and new records are committed within a bound."""

    def not_healed(self, seen: str) -> None:
        """The time is over without success."""
        raise self.violated(seen)
