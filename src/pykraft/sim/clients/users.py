"""What uses the quorum of a world: by default registers and their clients, or a program's own state machine."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Protocol, TypeAlias

from pykraft.sim.facts.facts import Facts
from pykraft.sim.invariants.watch import Watch
from pykraft.sim.machine.node import SimulatedNode


class Users(Protocol):
    """The applications of all processes, and their clients."""

    @property
    def acknowledged(self) -> int:
        """Number of acknowledged values."""
        ...

    @property
    def acknowledged_end_offset(self) -> int:
        """Exclusive end of what was acknowledged."""
        ...

    def begin(self) -> None:
        """The world begins."""
        ...

    def started(self, node: SimulatedNode) -> None:
        """A process starts; its host has not taken its first step."""
        ...

    def over(self) -> None:
        """The world has healed: check what can only be checked at the end. Errors: ViolationError."""
        ...


MakeUsers: TypeAlias = Callable[[Facts, Watch, Callable[[str], Random]], Users]
"""The last argument returns the random generator of the named part of the world."""
