"""The application of one process: a few registers that follow the committed records.

It gets the batches like any listener, applies their values in order, and answers the reads that clients sent to this
process: a read is a value of its own in the log, and sees everything written before it. In a world with snapshots, the
application takes snapshots of its state, on its own or when the host asks, and loads a snapshot in place of the records
that it covers.

Source: Raft dissertation §6.3 and §6.4 (a read through the log is linearizable); KIP-630.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from random import Random
from typing import Final

from pykraft.host.delivery import CommittedBatch, Registration
from pykraft.host.snapshots.loading import Loader
from pykraft.sim.clients.snapshot_generator import SnapshotGenerator
from pykraft.sim.clients.snapshot_saver import SnapshotSaver
from pykraft.sim.clients.witness import Witness
from pykraft.sim.facts.application_state import ApplicationState, Plain
from pykraft.sim.facts.facts import Facts
from pykraft.sim.facts.history import Operation
from pykraft.sim.machine.io_errors import SnapshotDiskError
from pykraft.sim.machine.node import Process, SimulatedNode
from pykraft.snapshot.reader import SnapshotReader
from pykraft.types import Epoch, NodeId, OffsetAndEpoch

READS_AGAIN_US: Final = 100_000


class Application:
    """The main listener of one process."""

    def __init__(
        self, facts: Facts, witness: Witness, node: SimulatedNode, *, snapshot_dice: Random, asking_dice: Random
    ) -> None:
        """``snapshot_dice`` decides when to take snapshots, ``asking_dice`` whether the host asks for them."""
        self.reads: dict[bytes, Operation] = {}
        """Reads that clients sent to this process, by value."""
        self._facts = facts
        self._witness = witness
        self._node = node
        has_snapshots = bool(facts.records_between)
        self._generator = SnapshotGenerator(facts, witness, node, snapshot_dice) if has_snapshots else None
        # Draw nothing where no host asks, so that those worlds stay what they were.
        probability = facts.scenario.snapshots.asked_probability
        is_asked = has_snapshots and probability and asking_dice.random() < probability
        self._saver = SnapshotSaver(facts, witness, node, snapshot_dice) if is_asked else None
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
        for batch, values in zip(batches, self._witness.delivered(self._node, batches), strict=True):
            self._state.note(batch)
            for value in values:
                found = registers.apply(value)
                operation = self.reads.pop(value, None)
                if operation is not None:
                    operation.read, operation.read_us = found, self._facts.clock.now_us
        self._witness.given(self._node, batches[-1].end_offset)
        if self._generator is not None:
            self._generator.ask_within(batches[-1], self._state)
            if self._saver is None:
                self._generator.committed(OffsetAndEpoch(batches[-1].end_offset, batches[-1].epoch), self._state)

    def on_leader_change(self, epoch: Epoch, leader_id: NodeId | None) -> None:
        """Report a new epoch or leader to the witness."""
        news = f"epoch {epoch}" if leader_id is None else f"leader {leader_id} of epoch {epoch}"
        self._witness.note(self._node, f"hears of {news}")
        self._witness.watch.told_leader(self._node, epoch, leader_id)

    def _load(self, reader: SnapshotReader[bytes]) -> None:
        """Replace the state by a snapshot, read on the bulk lane; deliveries are held meanwhile."""
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
        """Write the state to a snapshot because the host asks for it; deliveries are held meanwhile."""
        assert self._registration is not None
        assert self._saver is not None
        self._registration.hold()
        self._saver.save(snapshot_id, self._state, self._registration.release)

    def _loaded(self, snapshot_id: OffsetAndEpoch, records: Sequence[bytes]) -> None:
        assert self._registration is not None
        assert self._generator is not None
        self._state = ApplicationState.of(records)
        self._generator.loaded(snapshot_id.offset)
        self._witness.happened("snapshot loaded", self._node)
        self._witness.watch.loaded(self._node, snapshot_id)
        self._witness.given(self._node, snapshot_id.offset)
        self._registration.release()


def _records(reader: SnapshotReader[bytes]) -> list[bytes] | SnapshotDiskError:
    """Read all records of a snapshot, and close it unless the disk reads none at the moment."""
    with ExitStack() as stack:
        stack.callback(reader.close)
        try:
            return [record for batch in reader for record in batch.records]
        except SnapshotDiskError as error:
            stack.pop_all()  # It is read again.
            return error
