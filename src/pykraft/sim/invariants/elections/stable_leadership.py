"""A leader that a majority hears is not replaced, whatever the rest of the network does.

The leader of an epoch, and the nodes that have fetched from it, deny pre-votes (`KeptLeader`).

Source: KIP-996; Kafka ``RaftEventSimulationTest.StableLeadership`` (star partitions), made general as KAFKA-18439 asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pykraft.sim.facts.view import View
from pykraft.sim.invariants.invariant import KeptLeader


class StableLeadership(KeptLeader):
    """No node becomes a candidate if a majority has heard the leader since the node began to ask for pre-votes."""

    _verb = "heard"

    def _holds(self, now: View) -> bool:
        return now.leads or now.has_fetched

    def _deniers(self, holding: Sequence[int], epoch: int, began: int) -> Iterable[int]:
        del epoch, began
        return holding
