"""What every invariant is: told what happened, raising when it must not have.

An invariant reads hosts and disks and remembers what it needs; it never touches the world. An event changes one
node at most, so only that node is looked at.

Source: Kafka ``RaftEventSimulationTest.Invariant``; openraft ``tests-turmoil``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pykraft.host.delivery import CommittedBatch
    from pykraft.sim.node import Node
    from pykraft.sim.spoken import Spoken
    from pykraft.sim.world import World


class ViolationError(AssertionError):
    """An invariant does not hold: which, and what was seen."""

    def __init__(self, invariant: str, seen: str) -> None:
        super().__init__(f"{invariant}: {seen}")
        self.invariant = invariant


class Invariant:
    """Told of every event; each override looks at what concerns it."""

    def after_event(self, world: World, node: Node) -> None:
        """Something happened to this node."""

    def before_send(self, world: World, node: Node, spoken: Spoken) -> None:
        """A frame of the quorum is about to leave a node."""

    def persisted(self, world: World, node: Node) -> None:
        """Every storage job of this node is done; or it has recovered, and there was none."""

    def delivered(self, node: Node, batches: Sequence[CommittedBatch]) -> None:
        """A listener of this node was given committed batches."""

    def started(self, node: Node) -> None:
        """A process begins on this node, after its recovery."""

    def violated(self, seen: str) -> ViolationError:
        """The error to raise."""
        return ViolationError(type(self).__name__, seen)
