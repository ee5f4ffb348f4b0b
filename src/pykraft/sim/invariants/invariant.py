"""What every invariant is: told what happened, raising when it must not have.

An invariant reads hosts and disks and remembers what it needs; it never touches the world.

Source: Kafka ``RaftEventSimulationTest.Invariant``; openraft ``tests-turmoil``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pykraft.host.delivery import CommittedBatch
    from pykraft.sim.node import Node
    from pykraft.sim.world import World


class ViolationError(AssertionError):
    """An invariant does not hold: which, and what was seen."""

    def __init__(self, invariant: str, seen: str) -> None:
        super().__init__(f"{invariant}: {seen}")
        self.invariant = invariant


class Invariant:
    """Told of every event; each override looks at what concerns it."""

    def after_event(self, world: World) -> None:
        """Something happened anywhere."""

    def before_request(self, world: World, node: Node, epoch: int) -> None:
        """A request of this epoch is about to leave a node."""

    def delivered(self, node: Node, batches: Sequence[CommittedBatch]) -> None:
        """A listener of this node was given committed batches."""

    def started(self, node: Node) -> None:
        """A process begins on this node, after its recovery."""

    def violated(self, seen: str) -> ViolationError:
        """The error to raise."""
        return ViolationError(type(self).__name__, seen)
