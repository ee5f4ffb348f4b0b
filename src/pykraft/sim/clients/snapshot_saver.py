"""Writes the snapshots that the host asks the application for, piece by piece, directly from the living state.

In `pykraft.sim.clients.snapshot_generator` the application decides on its own and writes a copy of its state. Here it
copies nothing: each piece is read from the state when it is written, and the registration is held until all pieces are
written. So if the state changed meanwhile, or did not match the snapshot id, the file would show it.

Source: KIP-630 §When to Snapshot; `pykraft.host.snapshots.trigger`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pykraft.host.snapshots.creation import NewSnapshot
from pykraft.sim.clients.snapshot_pieces import PieceWriter, write_pieces
from pykraft.sim.facts.application_state import ApplicationState, Plain
from pykraft.types import OffsetAndEpoch


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
        self._tell(outcome, done=f"was asked for a snapshot, and has saved it at {at}", failed="saves no snapshot")
        then()
