"""What faults act on: the facts of a world, whoever is to be told of harm, and the few things that they may set off."""

from __future__ import annotations

from typing import Protocol

from pykraft.sim.clients.witness import Witness
from pykraft.sim.facts.facts import Facts
from pykraft.sim.invariants.watch import Watch
from pykraft.sim.machine.node import Node
from pykraft.sim.machine.recorder import Recorder
from pykraft.sim.machine.trace import Trace


class Arena(Protocol):
    """A world as its faults see it."""

    @property
    def facts(self) -> Facts:
        """What is true of it."""
        ...

    @property
    def watch(self) -> Watch:
        """Its oracles, which forget what harm takes away from a node."""
        ...

    @property
    def witness(self) -> Witness:
        """Who is told of the clients that a fault sends."""
        ...

    @property
    def trace(self) -> Trace:
        """Where harm is noted."""
        ...

    @property
    def recorder(self) -> Recorder | None:
        """What the page of the run is made of."""
        ...

    def newcomer(self) -> Node:
        """Another machine, formatted or configured to join the others; nothing runs on it yet."""
        ...

    def restart(self, node: Node) -> None:
        """Start a node that is down, as soon as it may."""
        ...
