"""A snapshot that is written piece by piece: each when the one before is on its way to the disk, then it is frozen.

Owns the course of that, whoever takes the snapshot. Invariant: whatever goes wrong, the snapshot is closed, and
``done`` is called exactly once.

Source: `pykraft.host.taking`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from pykraft.host.taking import TakenSnapshot


def starts_of(count: int, pieces: int) -> range:
    """Where each of about so many pieces of this many records begins; its step is their size."""
    return range(0, count, count // pieces + 1)


def write_pieces(
    taken: TakenSnapshot,
    pieces: Iterator[Sequence[bytes]],
    done: Callable[[int | Exception | None], None],
    gives_up: Callable[[], bool] = lambda: False,
    problem: Exception | None = None,
) -> None:
    """Write all of them; ``done`` is told the size in bytes, or why not, or None when it ``gives_up`` at the end."""
    piece = next(pieces, None) if problem is None else None
    if piece is not None:
        taken.append(piece, partial(write_pieces, taken, pieces, done, gives_up))
    elif problem is not None or gives_up():
        taken.close()
        done(problem)
    else:
        taken.freeze(done)


def write_carelessly(
    taken: TakenSnapshot, pieces: Iterator[Sequence[bytes]], done: Callable[[int | Exception | None], None]
) -> None:
    """The same by an application that looks at no error: it writes on, and freezes what there is."""
    piece = next(pieces, None)
    if piece is not None:
        taken.append(piece, lambda _: write_carelessly(taken, pieces, done))
        return

    def frozen(result: int | Exception) -> None:
        if isinstance(result, Exception):
            taken.close()
        done(result)

    taken.freeze(frozen)
