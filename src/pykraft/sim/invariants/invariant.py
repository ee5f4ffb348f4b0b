"""What every oracle is: told what happened, raising when it must not have.

An oracle reads hosts and disks and remembers what it needs; it never touches the world. It is told of each event when
it happens, and most of them of news only, so that a world costs hardly more for being watched. Oracles know nothing
of each other: any of them can watch a world alone.

Source: Kafka ``RaftEventSimulationTest.Invariant``; openraft ``tests-turmoil``.
"""

from __future__ import annotations

from collections.abc import Sequence

from pykraft.host.delivery import CommittedBatch
from pykraft.log.lane import Job
from pykraft.sim.facts.electorate import VoterRecord
from pykraft.sim.facts.facts import Facts
from pykraft.sim.facts.history import Operation
from pykraft.sim.facts.view import View
from pykraft.sim.facts.visit import Visit
from pykraft.sim.facts.voter_requests import Asked
from pykraft.sim.machine.node import Node
from pykraft.sim.machine.spoken import Spoken
from pykraft.types import OffsetAndEpoch


class ViolationError(AssertionError):
    """An invariant does not hold: which, and what was seen."""

    def __init__(self, invariant: str, seen: str) -> None:
        super().__init__(f"{invariant}: {seen}")
        self.invariant = invariant


class Invariant:
    """Told of everything; each oracle overrides what concerns it."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts

    def started(self, node: Node) -> None:
        """A process begins on this node, after its recovery."""

    def lost(self, node: Node) -> None:
        """The disk of this node had lied about its last records: it starts, and may lack what it had told to hold."""

    def wiped(self, node: Node) -> None:
        """This node has an empty disk from now on, and no memory."""

    def forgot_votes(self, node: Node) -> None:
        """An older ``quorum-state`` of this node was restored; its log is as it was."""

    def emptied(self, node: Node) -> None:
        """This node is about to lose all that is on its disk, and starts again at once, with the same directory id.

        Nobody takes care that none of its votes and copies counts any more: it has to do that itself.
        """
        self.wiped(node)

    def changed(self, node: Node, was: View, now: View) -> None:
        """An event is over, and the node is not as it was before."""

    def after_event(self, node: Node, now: View) -> None:
        """An event is over that concerned this node, whether it changed or not."""

    def before_send(self, node: Node, spoken: Spoken) -> None:
        """A frame of the quorum is about to leave a node."""

    def submitted(self, node: Node, job: Job) -> None:
        """A host asks for a storage job; the node's ledger does not hold it yet."""

    def voters_written(self, node: Node, record: VoterRecord, committed_end: int) -> None:
        """A leader has written this voter set behind its log; ``committed_end`` is what it knows to be committed.

        Its ledger does not hold it yet.
        """

    def reported(self, node: Node, text: str) -> None:
        """A host says something to its operator."""

    def persisted(self, node: Node) -> None:
        """Every storage job of this node is done; or it has recovered, and there was none."""

    def delivered(self, node: Node, batches: Sequence[CommittedBatch]) -> None:
        """A listener of this node was given committed batches."""

    def listens(self, node: Node, start_offset: int) -> None:
        """A plain listener of this node begins here."""

    def overheard(self, node: Node, batches: Sequence[CommittedBatch]) -> None:
        """A plain listener of this node was given committed batches."""

    def skipped(self, node: Node, next_offset: int, start_offset: int) -> None:
        """A plain listener of this node misses these offsets, and goes on at the log start."""

    def loaded(self, node: Node, snapshot_id: OffsetAndEpoch) -> None:
        """A listener of this node was given a snapshot in the place of all that it stands for."""

    def committed(self, base_offset: int, values: Sequence[bytes]) -> None:
        """For the first time a listener anywhere was given this batch of values at this offset."""

    def told_leader(self, node: Node, epoch: int, leader_id: int | None) -> None:
        """A listener of this node hears of an epoch or of its leader."""

    def proposed(self, operation: Operation) -> None:
        """A client is about to propose."""

    def accepted(self, operation: Operation) -> None:
        """The values of this operation have their offsets; they are not in the log yet."""

    def decided(self, operation: Operation) -> None:
        """A client has its answer."""

    def asked(self, asked: Asked) -> None:
        """An operator's request for another voter set is on its way to its leader."""

    def visited(self, node: Node, visit: Visit) -> None:
        """A client asks this node a question, or has its answer."""

    def woken(self, node: Node) -> None:
        """A timer of this node rings, because its host asked for it."""

    def dialed(self, node: Node, target_id: int) -> None:
        """A node tries to connect to another one."""

    def answered(self, asked: Asked) -> None:
        """An operator has an answer to a request for another voter set, or will never have one."""

    def stopped(self, node: Node, error: Exception | None) -> None:
        """A host gives up, or is done when there is no error."""

    def faults_ended(self) -> None:
        """From now on no harm is done."""

    def not_healed(self, seen: str) -> None:
        """The time is over in which all nodes should have been given everything."""

    def ended(self) -> None:
        """The run is over."""

    def violated(self, seen: str) -> ViolationError:
        """The error to raise."""
        return ViolationError(type(self).__name__, seen)
