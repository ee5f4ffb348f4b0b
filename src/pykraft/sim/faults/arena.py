"""What faults act on: the facts of a world, those to tell of a fault, and the few things that faults may set off."""

from __future__ import annotations

from typing import Protocol

from pykraft.sim.facts.facts import Facts
from pykraft.sim.invariants.watch import Watch
from pykraft.sim.machine.node import SimulatedNode
from pykraft.sim.machine.recorder import Recorder
from pykraft.sim.machine.trace import Trace


class Arena(Protocol):
    """A world as its faults see it."""

    facts: Facts
    """The true state of the world."""
    watch: Watch
    """Oracles forget what a fault takes away from a node; the clients that a fault creates report here."""
    trace: Trace
    """Faults write lines to it."""
    recorder: Recorder | None
    """Collects events for the page of the run, if there is one."""

    def newcomer(self) -> SimulatedNode:
        """Create another machine, formatted or configured to join the others; no process runs on it yet."""

    def restart(self, node: SimulatedNode) -> None:
        """Start a node that is down, as soon as the atlas allows it."""
