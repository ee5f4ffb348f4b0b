"""Epochs grow by elections; epochs that strangers name make them grow no faster than each node's budget allows.

An epoch has 31 bits and never falls: a quorum that reaches the last one can elect nobody. Each process starts with the
budget of a day; elections need very little of it.

Source: ADR 029; Raft dissertation §6.2 (disruptive servers).
"""

from __future__ import annotations

from pykraft.core.epoch_budget import EPOCHS_PER_DAY
from pykraft.sim.invariants.invariant import Invariant, SimulatedNode, View

ELECTIONS_MAX = 2**16
"""Far more elections than a world has, including what a budget gains in that time."""


class EpochsGrowWithinBudget(Invariant):
    """No epoch is above the elections of a world plus a day's budget of each process that ever started."""

    def _begin(self) -> None:
        self._starts = 0

    def started(self, _node: SimulatedNode) -> None:
        """A new process adds a budget."""
        self._starts += 1

    def changed(self, node: SimulatedNode, was: View, now: View) -> None:
        """Compare a node's epoch with the elections and budgets of all."""
        bound = ELECTIONS_MAX + self._starts * EPOCHS_PER_DAY
        if now.epoch > bound:
            seen = f"node {node.node_id} is in epoch {now.epoch}, it was in {was.epoch}"
            raise self.violated(f"{seen}; {self._starts} processes may have brought it to {bound}")
