"""Writes a snapshot piece by piece, each after the one before was passed to the disk, then freezes it.

Both kinds of snapshots use it. Invariant: whatever goes wrong, the snapshot is closed, and ``done`` is called exactly
once.

Source: `pykraft.host.snapshots.creation`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from pykraft.host.snapshots.creation import NewSnapshot


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
