"""The base of all oracles: it is told what happens, and raises an error when that must not happen.

An oracle reads hosts and disks and remembers what it needs; it never changes the world. It is called at the moment of
each event, and for most events only when a node's `View` changed, so watching a world costs little. Oracles do not
depend on each other: any of them can watch a world alone. They find here the types of what their hooks are given.

Oracles of liveness apply their bounds only in a `Calm`: every link works at its usual speed and, in each voter set in
force, a majority runs, undamaged, on disks that answer. Any fault ends a calm; the next one begins when it is over.

Source: Kafka ``RaftEventSimulationTest.Invariant``, ``QuorumState``; openraft ``tests-turmoil``; KIP-996; TigerBeetle's
liveness mode, where a core of replicas is healthy for good.
"""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import ClassVar, Final, NamedTuple

from pykraft.core.effects import Report
from pykraft.core.quorum import majority_of
from pykraft.core.state import Follower
from pykraft.core.status import RESIGNED
from pykraft.errors import StorageError
from pykraft.host.delivery import CommittedBatch
from pykraft.log.lane import Job
from pykraft.sim.facts.facts import Facts
from pykraft.sim.facts.history import GroupCommit, GroupRead, IssuedId, Operation, Ownership, ProducerAnswer, Visit
from pykraft.sim.facts.members import VoterRecord, VoterRequest
from pykraft.sim.facts.platter import DurableElection
from pykraft.sim.invariants.violation import ViolationError
from pykraft.sim.machine.disk import Interrupted
from pykraft.sim.machine.node import SimulatedNode
from pykraft.sim.machine.spoken import Spoken
from pykraft.sim.scenario.scenario import KINDS, Scenario
from pykraft.sim.scenario.settings import LISTENER, node_at
from pykraft.types import OffsetAndEpoch, Voter, VoterSet

LOOK_US: Final = 25_000
"""Interval between two looks at the whole world, which cost time; a bound may be off by this much."""
TRANSFERS: Final = 4
"""A leader sends a batch to several voters at a time, and each send may wait for as many bytes before it."""
RECORD_OVERHEAD_BYTES: Final = 100


def transfer_us(scenario: Scenario, byte_us: int) -> int:
    """How long links may take for one proposal or one whole answer, when each byte takes this long."""
    work = scenario.work
    proposed_bytes = work.values_max * (work.value_size_bytes_max + RECORD_OVERHEAD_BYTES) * work.proposals_max
    largest_bytes = max(proposed_bytes, *scenario.quorum.fetch_size_bytes_max)
    return TRANSFERS * largest_bytes * byte_us


class Calm:
    """Measures the present calm for one oracle, at most once per `LOOK_US`."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._since_us: int | None = None
        self._next_us = 0
        self._faults = 0

    def is_due(self) -> bool:
        """True when it is time for another look."""
        now_us = self._facts.clock.now_us
        if now_us < self._next_us:
            return False
        self._next_us = now_us + LOOK_US
        return True

    def lasts_us(self) -> int:
        """How long the present calm has lasted; 0 when the world is not calm."""
        now_us, counts = self._facts.clock.now_us, self._facts.counts
        faults = sum(counts[kind] for kind in KINDS)
        if faults != self._faults or not self._is_calm():
            self._faults, self._since_us = faults, None
        elif self._since_us is None:
            self._since_us = now_us
        return 0 if self._since_us is None else now_us - self._since_us

    def _is_calm(self) -> bool:
        facts = self._facts
        if facts.claims.is_posing:
            return False  # Its followers cannot tell it from the real voter, so they may stay with it.
        return facts.network.is_usual and all(self._has_majority(voters) for voters in facts.members.in_force())

    def _has_majority(self, voters: VoterSet) -> bool:
        sound = sum(self._is_sound(voter) for voter in voters.voters)
        return sound >= majority_of(len(voters))

    def _is_sound(self, voter: Voter) -> bool:
        node = self._facts.nodes[int(voter.key.id)]
        process = node.process
        return (
            process is not None
            and not process.is_paused
            and not node.is_damaged
            and node.disk.io_errors.stalled_until_us <= self._facts.clock.now_us
            and voter.key.matches(node.key)
            and voter.listeners == node.config.advertised_listeners
        )


DOWN = "down"


class View(NamedTuple):
    """``role`` is ``down`` when no process runs; most of the other fields are then empty."""

    role: str
    epoch: int
    leader_id: int | None
    high_watermark: int | None
    """For a leader that resigned, the high watermark that it had."""
    has_fetched: bool
    """True for a follower that has fetched from its leader: it denies pre-votes."""
    is_settled: bool
    """True when no storage job is under way, so memory and disk must agree."""
    disk: DurableElection
    log_start_offset: int = 0
    snapshots: tuple[OffsetAndEpoch, ...] = ()
    """Snapshots that the host knows to be whole and durable, oldest first."""
    voters: VoterSet = VoterSet()
    """The voter set that the node uses."""

    @property
    def is_up(self) -> bool:
        """True when a process runs."""
        return self.role != DOWN

    @property
    def leads(self) -> bool:
        """True for a leader; false for one that resigned."""
        return self.role == "leader"

    @property
    def has_led(self) -> bool:
        """True for a leader and for one that resigned, which may have committed in the same event."""
        return self.role in {"leader", "resigned"}

    @property
    def is_prospective(self) -> bool:
        """True while the node asks for pre-votes, whether or not it has voted in its epoch."""
        return self.role.startswith("prospective")


def view_of(node: SimulatedNode, disk: DurableElection) -> View:
    """The view of a node; ``disk`` is its durable election state."""
    process = node.process
    if process is None or process.host.raft is None:
        return View(DOWN, 0, None, None, has_fetched=False, is_settled=False, disk=disk)
    raft = process.host.raft
    status, state = raft.status, raft.state
    return View(
        status.role,
        status.epoch,
        status.leader_id,
        status.committed_end_offset or None if status.role == RESIGNED else status.high_watermark,
        isinstance(state, Follower) and state.has_fetched,
        process.ordered.is_idle,
        disk,
        status.log_start_offset,
        raft.log.snapshots,
        status.voters,
    )


def dialed_id(follower: Follower) -> int:
    """Id of the node at the port where a follower dials its leader: a stranger may pose as the leader."""
    endpoint = follower.leader_listeners.get(LISTENER)
    return int(follower.leader_id) if endpoint is None else node_at(endpoint.port)


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

    def leader_announced(self, node: SimulatedNode, epoch: int, leader_id: int | None) -> None:
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

    def group_owned(self, owned: Ownership) -> None:
        """A member of a group is told that the partition is its own."""

    def group_read(self, read: GroupRead) -> None:
        """A member of a group asks for the committed offset, or got it."""

    def group_committed(self, commit: GroupCommit) -> None:
        """A member of a group commits an offset, or got the answer."""

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
