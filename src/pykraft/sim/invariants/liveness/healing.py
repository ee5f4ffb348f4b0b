"""When the faults are over, the cluster heals and serves again, within a bound.

Every node that was down starts; all of them must be given all that was ever acknowledged, and new records as well.
A cluster that stays safe and never serves again is of no use: this is where a lasting deadlock shows.

Source: Kafka ``RaftEventSimulationTest`` (every scenario ends with progress); EventuallyLeaderElected of Vanlightly's
specification of KRaft; TigerBeetle's liveness mode.
"""

from __future__ import annotations

from pykraft.sim.invariants.invariant import Invariant


class Healing(Invariant):
    """Once the faults stop, every node catches up and new records are committed within a bound."""

    def not_healed(self, seen: str) -> None:
        """The bound was reached."""
        raise self.violated(seen)
