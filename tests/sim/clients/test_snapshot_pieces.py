"""A snapshot written in pieces is frozen after the last one, or closed once, whatever goes wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from pykraft.host.snapshots.creation import NewSnapshot
from pykraft.sim.clients.snapshot_pieces import starts_of, write_carelessly, write_pieces


class Slow:
    """Remembers who waits for what."""

    def __init__(self) -> None:
        self.written: list[Sequence[bytes]] = []
        self.waiting: Callable[[Exception | None], None] | None = None
        self.frozen: Callable[[int | Exception], None] | None = None
        self.closings = 0

    def append(self, piece: Sequence[bytes], then: Callable[[Exception | None], None]) -> None:
        self.written.append(piece)
        self.waiting = then

    def freeze(self, then: Callable[[int | Exception], None]) -> None:
        self.frozen = then

    def close(self) -> None:
        self.closings += 1


def begun(*pieces: Sequence[bytes], gives_up: bool = False) -> tuple[Slow, list[int | Exception | None]]:
    taken, outcomes = Slow(), list[int | Exception | None]()
    write_pieces(cast(NewSnapshot, taken), iter(pieces), outcomes.append, lambda: gives_up)
    return taken, outcomes


def answer(taken: Slow, problem: Exception | None = None) -> None:
    assert taken.waiting is not None
    taken.waiting(problem)


def test_pieces_cover_all_records() -> None:
    assert [*starts_of(7, 3)] == [0, 3, 6]
    assert [*starts_of(1, 5)] == [0]
    assert [*starts_of(0, 5)] == []


def test_each_piece_waits_for_the_one_before_and_then_it_is_frozen() -> None:
    taken, outcomes = begun([b"a"], [b"b"])
    assert taken.written == [[b"a"]]
    answer(taken)
    assert taken.written == [[b"a"], [b"b"]]
    assert taken.frozen is None
    answer(taken)
    assert taken.frozen is not None
    taken.frozen(123)
    assert (outcomes, taken.closings) == ([123], 0)


def test_a_piece_that_fails_ends_it() -> None:
    taken, outcomes = begun([b"a"], [b"b"])
    problem = OSError("no space")
    answer(taken, problem)
    assert (taken.written, outcomes, taken.closings, taken.frozen) == ([[b"a"]], [problem], 1, None)


def test_it_may_be_given_up_at_the_end() -> None:
    taken, outcomes = begun([b"a"], gives_up=True)
    answer(taken)
    assert (outcomes, taken.closings, taken.frozen) == ([None], 1, None)


def test_a_writer_that_ignores_errors_cannot_freeze_its_snapshot() -> None:
    taken, outcomes = Slow(), list[int | Exception | None]()
    write_carelessly(cast(NewSnapshot, taken), iter([[b"a"], [b"b"]]), outcomes.append)
    problem = ValueError("empty")
    answer(taken, problem)
    answer(taken)
    assert (taken.written, outcomes) == ([[b"a"], [b"b"]], [])
    assert taken.frozen is not None
    taken.frozen(problem)
    assert (outcomes, taken.closings) == ([problem], 1)


def test_who_looks_at_no_error_may_be_lucky() -> None:
    taken, outcomes = Slow(), list[int | Exception | None]()
    write_carelessly(cast(NewSnapshot, taken), iter([]), outcomes.append)
    assert taken.frozen is not None
    taken.frozen(7)
    assert (outcomes, taken.closings) == ([7], 0)
