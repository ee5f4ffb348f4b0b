"""Writes a snapshot piece by piece, each after the one before was passed to the disk, then freezes it.

Both kinds of snapshots use it. Invariant: whatever goes wrong, the snapshot is closed, and ``done`` is called exactly
once.

Source: `pykraft.host.snapshots.creation`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from random import Random

from pykraft.host.snapshots.creation import NewSnapshot
from pykraft.sim.facts.facts import Facts
from pykraft.sim.invariants.watch import Watch
from pykraft.sim.machine.node import SimulatedNode


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
        """Where each piece of so many records begins."""
        return starts_of(count, self._rng.randint(1, self._facts.scenario.snapshots.pieces_max))

    def _tell(self, outcome: int | Exception | None, *, done: str, failed: str) -> None:
        """Report the size of a snapshot that is complete, or a problem; None is neither."""
        if isinstance(outcome, int):
            self._watch.happened("snapshot taken", self._node)
            self._watch.trace.note(self._node.node_id, done)
        elif outcome is not None:
            self._watch.trace.note(self._node.node_id, f"{failed}: {outcome}")
