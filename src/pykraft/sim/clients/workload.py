"""What clients and applications do in a world: clients call leaders, and each process's application follows the log.

A client calls every node that believes it leads, so a leader that has been replaced without knowing it gets calls, too.
It writes registers, or reads one through the log: a read is a value of its own, and sees everything written before it.
In some worlds a few appends in a row are only prepared, and scheduled later; leaders have small buffers there, which
prepared appends often fill.

The application applies values in order and answers the reads of its process. In a world with snapshots it takes
snapshots of its state, on its own or when the host asks, and loads one in place of the records that it covers. One of
its own is a copy of its state. For one that the host asks for it copies nothing: each piece is read from the state when
it is written, and the registration is held until all pieces are written. Invariant: a snapshot has the state of the
moment at which it begins, whatever is committed during the writing; whatever goes wrong, it is closed.

A second listener, plain and often slow, loads no snapshots and may fall behind the log start. Now and then it holds its
registration for a while, as a busy application does; meanwhile logs are cleaned.

Source: Kafka's ``RaftClient`` (``register``, ``prepareAppend``, ``schedulePreparedAppend``) and ``SnapshotGenerator``;
Raft dissertation §6.3 and §6.4 (a read through the log is linearizable); KIP-630 §When to Snapshot.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from random import Random
from typing import Final

from pykraft.config import NodeConfig
from pykraft.errors import BufferFullError
from pykraft.host.delivery import CommittedBatch, Registration
from pykraft.host.producers import Committed, ProposalOutcome, Rejected
from pykraft.host.snapshots.creation import Loader, NewSnapshot
from pykraft.sim.facts.facts import Facts
from pykraft.sim.facts.history import READ, WRITE, ApplicationState, Operation, OperationOutcome, Plain, value_of
from pykraft.sim.invariants.watch import Watch
from pykraft.sim.machine.disk import SnapshotDiskError
from pykraft.sim.machine.node import Process, SimulatedNode
from pykraft.snapshot.head import SnapshotReader
from pykraft.types import Epoch, NodeId, Offset, OffsetAndEpoch

HOLD_PROBABILITY = 0.1
"""Probability that the listener is busy for some time after a delivery."""
HOLD_US_MAX = (1_000, 100_000, 1_500_000)


class Bystander:
    """The plain listener of one process; begins with `listen`. See `pykraft.host.delivery.HostListener`."""

    def __init__(self, facts: Facts, watch: Watch, node: SimulatedNode, rng: Random) -> None:
        self.end_offset = 0
        """End offset of what it was given or has missed."""
        self._facts = facts
        self._watch = watch
        self._node = node
        self._rng = rng
        self._registration: Registration | None = None

    def listen(self) -> None:
        host = self._node.host
        assert host is not None
        self._watch.listens(self._node, host.status.log_start_offset)
        self._registration = host.register(self, is_held=True, on_skipped=self._skipped)
        self._registration.release()

    def on_commit(self, batches: Sequence[CommittedBatch]) -> None:
        self._watch.overheard(self._node, batches)
        self.end_offset = batches[-1].end_offset
        process, registration = self._node.process, self._registration
        if self._rng.random() < HOLD_PROBABILITY and process is not None and registration is not None:
            registration.hold()
            process.later(self._rng.randrange(self._rng.choice(HOLD_US_MAX)), registration.release)

    def on_leader_change(self, epoch: Epoch, leader_id: NodeId | None) -> None:
        """See `pykraft.host.delivery.HostListener`: ignored."""

    def _skipped(self, next_offset: Offset, start_offset: Offset) -> None:
        self._watch.skipped(self._node, next_offset, start_offset)
        self._watch.happened("listener fell behind", self._node)
        self.end_offset = start_offset


def starts_of(count: int, pieces: int) -> range:
    """Where each piece begins when so many records are split into about so many pieces; the step is a piece's size."""
    return range(0, count, count // pieces + 1)


def write_pieces(
    taken: NewSnapshot,
    pieces: Iterator[Sequence[bytes]],
    done: Callable[[int | Exception | None], None],
    gives_up: Callable[[], bool] = lambda: False,
    problem: Exception | None = None,
) -> None:
    """Write all pieces, then call ``done``: with the size in bytes, with an error, or with None if it ``gives_up``."""
    piece = next(pieces, None) if problem is None else None
    if piece is not None:
        taken.append(piece, partial(write_pieces, taken, pieces, done, gives_up))
    elif problem is not None or gives_up():
        taken.close()
        done(problem)
    else:
        taken.freeze(done)


def write_carelessly(
    taken: NewSnapshot, pieces: Iterator[Sequence[bytes]], done: Callable[[int | Exception | None], None]
) -> None:
    """Write as a careless application does: it ignores errors, writes on, and freezes what there is."""
    piece = next(pieces, None)
    if piece is not None:
        taken.append(piece, lambda _: write_carelessly(taken, pieces, done))
        return

    def frozen(result: int | Exception) -> None:
        if isinstance(result, Exception):
            taken.close()
        done(result)

    taken.freeze(frozen)


class PieceWriter:
    """Writes snapshots of one process, each in a random number of pieces, and reports what became of them."""

    def __init__(self, facts: Facts, watch: Watch, node: SimulatedNode, rng: Random) -> None:
        self._facts = facts
        self._watch = watch
        self._node = node
        self._rng = rng

    def _starts(self, count: int) -> range:
        return starts_of(count, self._rng.randint(1, self._facts.scenario.snapshots.pieces_max))

    def _report(self, outcome: int | Exception | None, *, done: str, failed: str) -> None:
        if isinstance(outcome, int):
            self._watch.happened("snapshot taken", self._node)
            self._watch.trace.note(self._node.node_id, done)
        elif outcome is not None:
            self._watch.trace.note(self._node.node_id, f"{failed}: {outcome}")


WITHIN_PROBABILITY: Final = 0.1
"""In worlds with such applications, the share of larger batches within which one asks for a snapshot."""


class SnapshotGenerator(PieceWriter):
    """Takes the snapshots of one process, each after roughly the same number of records."""

    def __init__(self, facts: Facts, watch: Watch, node: SimulatedNode, rng: Random) -> None:
        super().__init__(facts, watch, node, rng)
        self._is_busy = False
        self._due_offset = self._next_due(Offset(0))
        # Generators of their own, so that worlds without such applications stay what they were.
        probability = facts.scenario.snapshots.within_batch_probability
        self._asks_within = Random(f"{facts.seed} within").random() < probability
        self._within_dice = Random(f"{facts.seed} within {node.node_id}")

    def loaded(self, offset: Offset) -> None:
        """A snapshot that ends at this offset replaced the state."""
        self._due_offset = self._next_due(offset)

    def committed(self, end: OffsetAndEpoch, state: ApplicationState) -> None:
        """The state reaches up to here: begin a snapshot if it is time."""
        host = self._node.host
        if self._is_busy or end.offset < self._due_offset or host is None:
            return
        self._is_busy = True
        self._due_offset = self._next_due(end.offset)
        host.create_snapshot(end, Plain(), partial(self._begun, end, state.records()))

    def ask_within(self, batch: CommittedBatch, state: ApplicationState) -> None:
        """Now and then, ask for a snapshot that ends within this newest batch; it is written if it is not refused."""
        host, dice = self._node.host, self._within_dice
        is_large = batch.end_offset - batch.base_offset > 1
        if not self._asks_within or not is_large or host is None or dice.random() >= WITHIN_PROBABILITY:
            return
        snapshot_id = OffsetAndEpoch(Offset(dice.randrange(batch.base_offset + 1, batch.end_offset)), batch.epoch)

        def begun(answer: NewSnapshot | int | Exception | None) -> None:
            if isinstance(answer, NewSnapshot):
                # `SnapshotIsCommitted` then compares its id with its content.
                write_pieces(answer, iter([state.records()]), begun)
            else:
                self._report(answer, done="has taken it", failed="takes no snapshot within a batch")

        host.create_snapshot(snapshot_id, Plain(), begun)

    def _next_due(self, offset: Offset) -> Offset:
        between = self._facts.records_between
        return Offset(offset + self._rng.randint(between // 2 + 1, between * 2))

    def _begun(
        self, snapshot_id: OffsetAndEpoch, records: Sequence[bytes], begun: NewSnapshot | Exception | None
    ) -> None:
        over = partial(self._over, snapshot_id)
        if not isinstance(begun, NewSnapshot):
            over(begun)
            return
        starts = self._starts(len(records))
        pieces = (records[start : start + starts.step] for start in starts)
        # A generator of its own, so that worlds without careless applications stay what they were.
        dice = Random(f"{self._facts.seed} careless {self._node.node_id} {snapshot_id}")
        if dice.random() < self._facts.scenario.snapshots.careless_probability:
            write_carelessly(begun, iter([*_with_impossible(pieces, dice)]), over)
            return
        write_pieces(begun, pieces, over, self._gives_up)

    def _gives_up(self) -> bool:
        return self._rng.random() < self._facts.scenario.snapshots.given_up_probability

    def _over(self, snapshot_id: OffsetAndEpoch, outcome: int | Exception | None) -> None:
        self._is_busy = False
        at = f"{snapshot_id.offset} of epoch {snapshot_id.epoch}"
        self._report(outcome, done=f"has taken a snapshot at {at}, {outcome} bytes", failed="takes no snapshot")


def _with_impossible(pieces: Iterable[Sequence[bytes]], dice: Random) -> Iterator[Sequence[bytes]]:
    for piece in pieces:
        at = dice.randint(0, len(piece))
        yield [*piece[:at], b"", *piece[at:]]


class SnapshotSaver(PieceWriter):
    """Writes the requested snapshots of one process."""

    def save(self, snapshot_id: OffsetAndEpoch, state: ApplicationState, then: Callable[[], None]) -> None:
        """Write this state as the snapshot with this id; ``then`` is called when the writing is over."""
        assert self._node.host is not None
        self._node.host.create_snapshot(snapshot_id, Plain(), partial(self._begun, snapshot_id, state, then))

    def _begun(
        self,
        snapshot_id: OffsetAndEpoch,
        state: ApplicationState,
        then: Callable[[], None],
        begun: NewSnapshot | Exception | None,
    ) -> None:
        over = partial(self._over, snapshot_id, then)
        if not isinstance(begun, NewSnapshot):
            over(begun)
            return
        starts = self._starts(len(state.records()))
        write_pieces(begun, (state.records()[start : start + starts.step] for start in starts), over)

    def _over(self, snapshot_id: OffsetAndEpoch, then: Callable[[], None], outcome: int | Exception | None) -> None:
        at = f"{snapshot_id.offset} of epoch {snapshot_id.epoch}"
        self._report(outcome, done=f"was asked for a snapshot, and has saved it at {at}", failed="saves no snapshot")
        then()


READS_AGAIN_US: Final = 100_000


class Application:
    """The main listener of one process."""

    def __init__(
        self, facts: Facts, watch: Watch, node: SimulatedNode, *, snapshot_dice: Random, asking_dice: Random
    ) -> None:
        """``snapshot_dice`` decides when to take snapshots, ``asking_dice`` whether the host asks for them."""
        self.reads: dict[bytes, Operation] = {}
        """Reads that clients sent to this process, by value."""
        self._facts = facts
        self._watch = watch
        self._node = node
        has_snapshots = bool(facts.records_between)
        self._generator = SnapshotGenerator(facts, watch, node, snapshot_dice) if has_snapshots else None
        # Draw nothing where no host asks, so that those worlds stay what they were.
        probability = facts.scenario.snapshots.asked_probability
        is_asked = has_snapshots and probability and asking_dice.random() < probability
        self._saver = SnapshotSaver(facts, watch, node, snapshot_dice) if is_asked else None
        self._state = ApplicationState(keeps_entries=self._generator is not None)
        self._registration: Registration | None = None

    @property
    def is_asked(self) -> bool:
        """True when it takes snapshots only when the host asks."""
        return self._saver is not None

    def listen(self) -> None:
        """Register from the newest snapshot on, or from the first record."""
        assert self._node.host is not None
        save = self._save if self._saver is not None else None
        loader = Loader(deserializer=Plain(), load=self._load, save=save) if self._generator is not None else None
        self._registration = self._node.host.register(self, loader=loader)

    def on_commit(self, batches: Sequence[CommittedBatch]) -> None:
        """Apply committed batches, in order."""
        registers = self._state.registers
        self._watch.delivered(self._node, batches)
        for batch, values in zip(batches, self._watch.values_of(batches), strict=True):
            self._state.note(batch)
            for value in values:
                found = registers.apply(value)
                operation = self.reads.pop(value, None)
                if operation is not None:
                    operation.read, operation.read_us = found, self._facts.clock.now_us
        self._watch.given(self._node, batches[-1].end_offset)
        if self._generator is not None:
            self._generator.ask_within(batches[-1], self._state)
            if self._saver is None:
                self._generator.committed(OffsetAndEpoch(batches[-1].end_offset, batches[-1].epoch), self._state)

    def on_leader_change(self, epoch: Epoch, leader_id: NodeId | None) -> None:
        news = f"epoch {epoch}" if leader_id is None else f"leader {leader_id} of epoch {epoch}"
        self._watch.trace.note(self._node.node_id, f"hears of {news}")
        self._watch.leader_announced(self._node, epoch, leader_id)

    def _load(self, reader: SnapshotReader[bytes]) -> None:
        process, registration = self._node.process, self._registration
        assert process is not None
        assert registration is not None
        registration.hold()
        self._read(process, reader)

    def _read(self, process: Process, reader: SnapshotReader[bytes]) -> None:
        """Read the whole snapshot, and try again later if the disk reads no snapshots at the moment."""

        def done(records: Sequence[bytes] | SnapshotDiskError) -> None:
            if isinstance(records, SnapshotDiskError):
                process.later(READS_AGAIN_US, lambda: self._read(process, reader))
                return
            self._loaded(reader.snapshot_id, records)

        process.submit_read(lambda: _records(reader), done)

    def _save(self, snapshot_id: OffsetAndEpoch) -> None:
        assert self._registration is not None
        assert self._saver is not None
        self._registration.hold()
        self._saver.save(snapshot_id, self._state, self._registration.release)

    def _loaded(self, snapshot_id: OffsetAndEpoch, records: Sequence[bytes]) -> None:
        assert self._registration is not None
        assert self._generator is not None
        self._state = ApplicationState.of(records)
        self._generator.loaded(snapshot_id.offset)
        self._watch.happened("snapshot loaded", self._node)
        self._watch.loaded(self._node, snapshot_id)
        self._watch.given(self._node, snapshot_id.offset)
        self._registration.release()


def _records(reader: SnapshotReader[bytes]) -> list[bytes] | SnapshotDiskError:
    with ExitStack() as stack:
        stack.callback(reader.close)
        try:
            return [record for batch in reader for record in batch.records]
        except SnapshotDiskError as error:
            stack.pop_all()  # It is read again.
            return error


BEGIN_PROBABILITY = 0.1
"""Probability that after a call that is not prepared the next ones are."""
SCHEDULE_PROBABILITIES = (0.0, 0.3)
"""A world draws one: the probability that a client schedules its row of prepared appends at the end."""
LENGTHS = (1, 3, 10, 40)
BATCH_SIZE_BYTES_MAX = 2_048
"""Each proposal of the workload fits into one batch of this size."""
BATCHES_MAX = (1, 2, 10)


def with_small_buffers(configs: Sequence[NodeConfig], rng: Random) -> list[NodeConfig]:
    """These configurations with one draw of how much a leader accumulates."""
    batches_max = rng.choice(BATCHES_MAX)
    return [
        replace(
            config,
            raft=replace(config.raft, batch_size_bytes_max=BATCH_SIZE_BYTES_MAX, accumulated_batches_max=batches_max),
        )
        for config in configs
    ]


class PreparedAppends:
    """The prepared appends of one world; none when ``rng`` is None."""

    def __init__(self, rng: Random | None) -> None:
        self._rng = rng
        self._schedule_probability = rng.choice(SCHEDULE_PROBABILITIES) if rng is not None else 0.0
        self._left: dict[int, int] = {}

    def is_next(self, node: SimulatedNode) -> bool:
        """Whether the next append at this leader is only prepared. At the end of a row it may schedule them."""
        if self._rng is None:
            return False
        left = self._left.pop(int(node.node_id), None)
        if left:
            self._left[int(node.node_id)] = left - 1
            return True
        if left == 0 and node.host is not None and self._rng.random() < self._schedule_probability:
            node.host.schedule_prepared(node.clock.instant)
        if self._rng.random() >= BEGIN_PROBABILITY:
            return False
        self._left[int(node.node_id)] = self._rng.choice(LENGTHS) - 1
        return True


READ_PROBABILITY = 0.1


class SimulatedWorkload:
    """Calls every node that leads, again and again."""

    def __init__(
        self, facts: Facts, watch: Watch, rng: Random, prepared: PreparedAppends, dice: Callable[[str], Random]
    ) -> None:
        """``dice`` returns the random generator of the named part of the world."""
        self.history = facts.history
        self.acknowledged = 0
        """Number of acknowledged values."""
        self.acknowledged_end_offset = 0
        self.proposed = 0
        self._facts = facts
        self._watch = watch
        self._rng = rng
        self._prepared = prepared
        self._work = facts.scenario.work
        self._applications: dict[int, Application] = {}
        self._dice = dice
        self._snapshot_dice: dict[int, Random] = {}
        self._asking_dice: dict[int, Random] = {}

    def begin(self) -> None:
        self._facts.clock.after(self._work.period_us, self._turn)

    def started(self, node: SimulatedNode) -> None:
        """See `Users`: the application listens from the first record or snapshot on."""
        node_id = int(node.node_id)
        self._applications[node_id] = application = Application(
            self._facts,
            self._watch,
            node,
            snapshot_dice=self._snapshot_dice.setdefault(node_id, self._dice(f"snapshots {node_id}")),
            asking_dice=self._asking_dice.setdefault(node_id, self._dice(f"asking {node_id}")),
        )
        asked = self.history.asked_node_ids
        (asked.add if application.is_asked else asked.discard)(node_id)
        application.listen()

    def over(self) -> None:
        """See `Users`: the oracles check the history."""

    def _turn(self) -> None:
        for node in self._facts.nodes.values():
            process = node.process
            if process is not None and process.host.status.leads and not process.is_paused:
                # A proposal changes the node's state, so the oracles must look at it after this event.
                self._watch.touch(node)
                for _ in range(self._proposals_in_a_row()):
                    self._call(node)
        period_us = self._work.period_us
        self._facts.clock.after(self._rng.randint(period_us // 2, period_us * 2), self._turn)

    def _call(self, node: SimulatedNode) -> None:
        process, application = node.process, self._applications[int(node.node_id)]
        assert process is not None
        is_prepared = self._prepared.is_next(node)
        operation = Operation(
            number=len(self.history.operations),
            node_id=int(node.node_id),
            epoch=process.host.status.epoch,
            values=self._next_values(),
            invoked_us=self._facts.clock.now_us,
            invoked_mono_ms=node.clock.instant.mono_ms,
            is_alive=lambda: process.is_running,
            is_prepared=is_prepared,
        )
        self.history.operations.append(operation)
        if operation.is_read:
            application.reads[operation.values[0]] = operation
        self._watch.proposed(operation)

        def accepted(base_offset: Offset) -> None:
            operation.base_offset = base_offset
            self._watch.accepted(operation)

        process.host.propose(
            operation.values,
            epoch=process.host.status.epoch,
            now=node.clock.instant,
            on_outcome=lambda outcome: self._decided(operation, outcome),
            on_accepted=accepted,
            is_prepared=is_prepared,
        )

    def _proposals_in_a_row(self) -> int:
        most = self._work.proposals_max
        return 1 if most == 1 else self._rng.randint(1, most)

    def _decided(self, operation: Operation, outcome: ProposalOutcome) -> None:
        operation.answered_us = self._facts.clock.now_us
        if isinstance(outcome, Committed):
            operation.answer, operation.base_offset = OperationOutcome.COMMITTED, outcome.base_offset
            self.acknowledged += len(operation.values)
            self.acknowledged_end_offset = max(self.acknowledged_end_offset, operation.end_offset)
        else:
            operation.answer = OperationOutcome.REJECTED if isinstance(outcome, Rejected) else OperationOutcome.UNKNOWN
            # The error of a leadership transfer is a subclass, so compare the exact type.
            operation.lacked_room = isinstance(outcome, Rejected) and type(outcome.error) is BufferFullError
        self._watch.decided(operation)

    def _next_values(self) -> tuple[bytes, ...]:
        if self._rng.random() < READ_PROBABILITY:
            return (self._next_value(READ),)
        return tuple(self._next_value(WRITE) for _ in range(self._rng.randint(1, self._work.values_max)))

    def _next_value(self, kind: bytes) -> bytes:
        self.proposed += 1
        return value_of(self.proposed, kind, self._rng.randrange(0, self._work.value_size_bytes_max))
