"""Decides when the application of one process takes a snapshot, in how many pieces, and whether it finishes it.

Invariant: it takes one snapshot at a time, of the state at the moment it begins, whatever is committed during the
writing. A world without snapshots has no generators.

Source: KIP-630 §When to Snapshot; Kafka's ``SnapshotGenerator``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from random import Random
from typing import Final

from pykraft.host.delivery import CommittedBatch
from pykraft.host.snapshots.creation import NewSnapshot
from pykraft.sim.clients.snapshot_pieces import PieceWriter, write_carelessly, write_pieces
from pykraft.sim.clients.witness import Witness
from pykraft.sim.facts.application_state import ApplicationState, Plain
from pykraft.sim.facts.facts import Facts
from pykraft.sim.machine.node import SimulatedNode
from pykraft.types import Offset, OffsetAndEpoch

WITHIN_PROBABILITY: Final = 0.1
"""In worlds with such applications, the share of larger batches within which one asks for a snapshot."""


class SnapshotGenerator(PieceWriter):
    """Takes the snapshots of one process, each after roughly the same number of records."""

    def __init__(self, facts: Facts, witness: Witness, node: SimulatedNode, rng: Random) -> None:
        super().__init__(facts, witness, node, rng)
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
                self._tell(answer, done="has taken it", failed="takes no snapshot within a batch")

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
        self._tell(outcome, done=f"has taken a snapshot at {at}, {outcome} bytes", failed="takes no snapshot")


def _with_impossible(pieces: Iterable[Sequence[bytes]], dice: Random) -> Iterator[Sequence[bytes]]:
    """Add to each piece an empty record, which no snapshot can hold."""
    for piece in pieces:
        at = dice.randint(0, len(piece))
        yield [*piece[:at], b"", *piece[at:]]
