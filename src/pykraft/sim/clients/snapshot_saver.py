"""Writes the snapshots that the host asks the application for, piece by piece, directly from the living state.

In `pykraft.sim.clients.snapshot_generator` the application decides on its own and writes a copy of its state. Here it
copies nothing: each piece is read from the state when it is written, and the registration is held until all pieces are
written. So if the state changed meanwhile, or did not match the snapshot id, the file would show it.

Source: KIP-630 §When to Snapshot; `pykraft.host.snapshots.trigger`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random

from pykraft.host.snapshots.creation import NewSnapshot
from pykraft.sim.clients.snapshot_pieces import starts_of, write_pieces
from pykraft.sim.clients.witness import Witness
from pykraft.sim.facts.application_state import ApplicationState, Plain
from pykraft.sim.facts.facts import Facts
from pykraft.sim.machine.node import SimulatedNode
from pykraft.types import OffsetAndEpoch


class SnapshotSaver:
    """Writes the requested snapshots of one process."""

    def __init__(self, facts: Facts, witness: Witness, node: SimulatedNode, rng: Random) -> None:
        self._facts = facts
        self._witness = witness
        self._node = node
        self._rng = rng

    def save(self, snapshot_id: OffsetAndEpoch, state: ApplicationState, then: Callable[[], None]) -> None:
        """Write this state as the snapshot with this id; ``then`` is called when the writing is over."""
        assert self._node.host is not None
        self._node.host.create_snapshot(snapshot_id, Plain(), partial(self._begun, state, then))

    def _begun(self, state: ApplicationState, then: Callable[[], None], begun: NewSnapshot | Exception | None) -> None:
        if not isinstance(begun, NewSnapshot):
            self._over(then, begun)
            return
        starts = starts_of(len(state.records()), self._rng.randint(1, self._facts.scenario.snapshots.pieces_max))
        pieces = (state.records()[start : start + starts.step] for start in starts)
        write_pieces(begun, pieces, partial(self._written, begun.snapshot_id, then))

    def _written(
        self, snapshot_id: OffsetAndEpoch, then: Callable[[], None], size_bytes: int | Exception | None
    ) -> None:
        if not isinstance(size_bytes, int):
            self._over(then, size_bytes)
            return
        self._witness.happened("snapshot taken", self._node)
        self._witness.note(
            self._node,
            f"was asked for a snapshot, and has saved it at {snapshot_id.offset} of epoch {snapshot_id.epoch}",
        )
        then()

    def _over(self, then: Callable[[], None], problem: Exception | None) -> None:
        if problem is not None:
            self._witness.note(self._node, f"saves no snapshot: {problem}")
        then()
