"""The base of all oracles: it is told what happens, and raises an error when that must not happen.

An oracle reads hosts and disks and remembers what it needs; it never changes the world. It is called at the moment of
each event, and for most events only when something changed, so watching a world costs little. Oracles do not depend on
each other: any of them can watch a world alone. They find here the types of what their hooks are given.

Source: Kafka ``RaftEventSimulationTest.Invariant``; openraft ``tests-turmoil``; KIP-996.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import ClassVar

from pykraft.core.effects import Report
from pykraft.core.quorum import majority_of
from pykraft.errors import StorageError
from pykraft.host.delivery import CommittedBatch
from pykraft.log.lane import Job
from pykraft.sim.facts.facts import Facts
from pykraft.sim.facts.history import IssuedId, Operation, ProducerAnswer, Visit
from pykraft.sim.facts.members import VoterRecord, VoterRequest
from pykraft.sim.facts.view import View
from pykraft.sim.invariants.violation import ViolationError
from pykraft.sim.machine.disk import Interrupted
from pykraft.sim.machine.node import SimulatedNode
from pykraft.sim.machine.spoken import Spoken
from pykraft.types import OffsetAndEpoch, VoterSet

__all__ = [
    "CommittedBatch",
    "Facts",
    "Interrupted",
    "Invariant",
    "IssuedId",
    "Job",
    "OffsetAndEpoch",
    "Operation",
    "ProducerAnswer",
    "Report",
    "SimulatedNode",
    "Spoken",
    "StorageError",
    "View",
    "Visit",
    "VoterRecord",
    "VoterRequest",
]


class Invariant:
    """The hooks of an oracle; each oracle overrides those it needs."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self._begin()

    def _begin(self) -> None:
        """Override this to create what the oracle remembers; it is called once, before anything happens."""

    def starting(self, node: SimulatedNode) -> None:
        """A process is about to read the disk of this node."""

    def started(self, node: SimulatedNode) -> None:
        """A process begins on this node, after its recovery."""

    def process_begun(self, node: SimulatedNode) -> None:
        """The oracles know that a process has started; its application may listen from the first record on."""

    def process_ended(self, node: SimulatedNode) -> None:
        """A process ended, or did not get through its recovery."""

    def interrupted(self, node: SimulatedNode, interruption: Interrupted) -> None:
        """A process ended in the middle of an operation on its disk."""

    def disk_failed(self, node: SimulatedNode, error: StorageError) -> None:
        """A program ended with this storage error; the disk may be replaced now."""

    def performs(self, node: SimulatedNode, jobs: Sequence[Job]) -> None:
        """The ordered lane is about to carry out these jobs; it may be interrupted in the middle."""

    def happened(self, kind: str, node: SimulatedNode) -> None:
        """Something happened that is counted in the report and is not a fault."""

    def lost(self, node: SimulatedNode) -> None:
        """This node starts; its disk has lied about its last records, so it may lack what it acknowledged."""

    def wiped(self, node: SimulatedNode) -> None:
        """This node has an empty disk from now on."""

    def forgot_votes(self, node: SimulatedNode) -> None:
        """An older ``quorum-state`` of this node was restored; its log is as it was."""

    def emptied(self, node: SimulatedNode) -> None:
        """This node is about to lose everything on its disk, and starts again at once with the same directory id.

        Nobody makes sure that its former votes and copies no longer count: the node has to do that itself.
        """
        self.wiped(node)

    def changed(self, node: SimulatedNode, was: View, now: View) -> None:
        """An event is over, and the node's view has changed."""

    def after_event(self, node: SimulatedNode, now: View) -> None:
        """An event that concerned this node is over, whether or not its view changed."""

    def before_send(self, node: SimulatedNode, spoken: Spoken) -> None:
        """A frame of the quorum is about to leave a node."""

    def submitted(self, node: SimulatedNode, job: Job) -> None:
        """A host submits a storage job; the node's ledger does not hold it yet."""

    def voters_appended(self, node: SimulatedNode) -> None:
        """A leader appends a voter set, in force from now on."""

    def voters_written(self, node: SimulatedNode, record: VoterRecord, committed_end: int) -> None:
        """A leader appends this voter set; ``committed_end`` is what it knows to be committed.

        Its ledger does not hold the set yet.
        """

    def reported(self, node: SimulatedNode, report: Report) -> None:
        """A host reports something to its operator."""

    def persisted(self, node: SimulatedNode) -> None:
        """Every storage job of this node is done; or it has recovered and there was none."""

    def delivered(self, node: SimulatedNode, batches: Sequence[CommittedBatch]) -> None:
        """A listener of this node got committed batches."""

    def given(self, node: SimulatedNode, end_offset: int) -> None:
        """An application has everything up to this offset."""

    def listens(self, node: SimulatedNode, start_offset: int) -> None:
        """A plain listener of this node begins at this offset."""

    def overheard(self, node: SimulatedNode, batches: Sequence[CommittedBatch]) -> None:
        """A plain listener of this node got committed batches."""

    def skipped(self, node: SimulatedNode, next_offset: int, start_offset: int) -> None:
        """A plain listener of this node missed these offsets, and continues at the log start."""

    def loaded(self, node: SimulatedNode, snapshot_id: OffsetAndEpoch) -> None:
        """A listener of this node got a snapshot in place of the records that it covers."""

    def committed(self, base_offset: int, values: Sequence[bytes]) -> None:
        """A listener anywhere got this batch of values at this offset for the first time."""

    def told_leader(self, node: SimulatedNode, epoch: int, leader_id: int | None) -> None:
        """A listener of this node hears of an epoch or of its leader."""

    def proposed(self, operation: Operation) -> None:
        """A client is about to propose."""

    def accepted(self, operation: Operation) -> None:
        """The values of this operation have their offsets; they are not in the log yet."""

    def decided(self, operation: Operation) -> None:
        """A client has its answer."""

    def produced(self, answer: ProducerAnswer) -> None:
        """A producer got the answer to a batch that it waited for."""

    def id_issued(self, issued: IssuedId) -> None:
        """A producer got an id."""

    def asked(self, asked: VoterRequest) -> None:
        """An operator's request to change the voters is on its way to the leader."""

    def visited(self, node: SimulatedNode, visit: Visit) -> None:
        """A client asks this node a question, or got its answer."""

    def woken(self, node: SimulatedNode) -> None:
        """The timer that this node's host set rings."""

    def dialed(self, node: SimulatedNode, target_id: int) -> None:
        """A node dials another one."""

    def answered(self, asked: VoterRequest) -> None:
        """An operator got the answer to a request to change the voters, or will never get one."""

    def stopped(self, node: SimulatedNode, error: Exception | None) -> None:
        """A host stopped, with an error or (None) after a shutdown."""

    def faults_ended(self) -> None:
        """From now on no faults happen."""

    def not_healed(self, seen: str) -> None:
        """The time by which all nodes should have everything is over."""

    def ended(self) -> None:
        """The run is over."""

    def violated(self, seen: str) -> ViolationError:
        """The error to raise."""
        return ViolationError(type(self).__name__, seen)


class KeptLeader(Invariant):
    """A leader that a majority holds on to is not replaced.

    A node that holds on to the leader of an epoch denies pre-votes. While such nodes are a majority of the voters that
    another node asks, that node must not become a candidate. What counts is the time since it began to ask, and the
    voters that it knew then.
    """

    _verb: ClassVar[str]
    """What the majority did: it ``heard`` the leader, for example."""

    @abstractmethod
    def _holds(self, now: View) -> bool:
        """Whether a node with this view holds on to the leader of its epoch, as far as views tell."""

    @abstractmethod
    def _deniers(self, holding: Sequence[int], epoch: int, began: int) -> Iterable[int]:
        """Nodes that would have denied a pre-vote against the leader of ``epoch`` since the event ``began``.

        ``holding`` are those that `_holds` names.
        """

    def _begin(self) -> None:
        self._events = 0
        """Numbers events, to tell which of two came first."""
        self._holding: dict[int, tuple[int, int]] = {}
        """Nodes whose view says that they hold on to a leader: its epoch, and since which event."""
        self._asking: dict[int, tuple[int, VoterSet]] = {}
        """Nodes that ask for pre-votes: since which event, and which voters."""

    def changed(self, node: SimulatedNode, was: View, now: View) -> None:
        """Remember what this node does now; check it if it became a candidate."""
        self._events += 1
        node_id = int(node.node_id)
        if not self._holds(now):
            self._holding.pop(node_id, None)
        elif self._holding.get(node_id, (-1, 0))[0] != now.epoch:
            self._holding[node_id] = (now.epoch, self._events)
        if now.is_prospective and not was.is_prospective:
            self._asking[node_id] = self._events, now.voters
        if now.role == "candidate" and was.is_prospective and self.facts.members.has_pre_votes:
            began, voters = self._asking[node_id]
            led = now.epoch - 1
            holding = [each for each, (epoch, since) in self._holding.items() if epoch == led and since < began]
            deniers = [each for each in self._deniers(holding, led, began) if each in voters.ids]
            if len(deniers) >= majority_of(len(voters)):
                seen = f"node {node_id} became a candidate of epoch {now.epoch}, while the majority {sorted(deniers)}"
                raise self.violated(f"{seen} {self._verb} the leader of epoch {led}")


class NewSnapshotInvariant(Invariant):
    """Calls ``judge`` for each new snapshot of a node: once, when the node begins to rely on it."""

    def changed(self, node: SimulatedNode, was: View, now: View) -> None:
        """Check the new snapshots of this node."""
        if now.snapshots == was.snapshots:
            return
        for snapshot_id in now.snapshots:
            if snapshot_id not in was.snapshots:
                self.judge(node, snapshot_id, self.facts.platters.snapshot(node, snapshot_id))

    def judge(self, node: SimulatedNode, snapshot_id: OffsetAndEpoch, content: bytes | None) -> None:
        """Check one new snapshot; ``content`` is what a power loss would leave of it, None if nothing."""
