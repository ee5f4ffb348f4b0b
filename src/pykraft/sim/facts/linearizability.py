"""Searches for an order of operations that explains what concurrent clients were told.

This is the search of Wing and Gong with Lowe's two improvements: calls that have taken effect are removed from a linked
list of invocations and answers, and no state is visited twice with the same set of calls done. The caller checks
histories of different registers one by one (locality).

An open call, one whose answer is unknown, may take effect at any time after its invocation, or never. The search is
bounded: when it reaches the bound the result is undecided, which is not a violation. An object is a function from a
state and a call to the next state, so any kind of history can be checked.

Source: Herlihy and Wing, "Linearizability" (TOPLAS 1990); Wing and Gong, "Testing and verifying concurrent objects"
(1993); Lowe, "Testing for linearizability" (2017); Lowe's cache of visited states as in Knossos and Porcupine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, NamedTuple, TypeAlias

NEVER_US = 2**63 - 1
"""Time of the answer of an open call."""
STEPS_MAX = 200_000
"""Bound on the steps of one search; the history of a world takes a few steps per call."""

ObjectState: TypeAlias = int
Object: TypeAlias = Callable[[ObjectState, tuple[Any, ...]], ObjectState | None]
"""Returns the state after a call, or None when the call cannot take effect in this state. States begin at 0."""


class ObjectCall(NamedTuple):
    """One operation: when it was invoked and answered (`NEVER_US`: open), and what it did."""

    invoked_us: int
    answered_us: int
    what: tuple[Any, ...]


class SearchVerdict(Enum):
    """The result of a search."""

    LINEARIZABLE = auto()
    NOT_LINEARIZABLE = auto()
    UNDECIDED = auto()
    """The search reached its bound."""


def register(state: ObjectState, what: tuple[Any, ...]) -> ObjectState | None:
    """A register that holds a number: ``("write", n)`` sets it, ``("read", n)`` reads n from it."""
    kind, number = what
    if kind == "write":
        return int(number)
    return state if state == number else None


def offsets(state: ObjectState, what: tuple[Any, ...]) -> ObjectState | None:
    """A log that grows: ``("append", base offset, end offset)`` takes effect at or after the former end."""
    _, base_offset, end_offset = what
    return int(end_offset) if base_offset >= state else None


@dataclass(slots=True, eq=False)
class _Entry:
    """An invocation or an answer of a call that has not taken effect; ``answer`` is None in an answer."""

    number: int
    what: tuple[Any, ...]
    answer: _Entry | None = None
    is_open: bool = False
    before: _Entry | None = None
    after: _Entry | None = None

    def take_out(self) -> None:
        """Remove the invocation and its answer from the list."""
        for entry in (self, self.answer):
            assert entry is not None
            assert entry.before is not None
            entry.before.after = entry.after
            if entry.after is not None:
                entry.after.before = entry.before

    def put_back(self) -> None:
        """Put both back; calls must be in the reverse order of `take_out`."""
        for entry in (self.answer, self):
            assert entry is not None
            assert entry.before is not None
            entry.before.after = entry
            if entry.after is not None:
                entry.after.before = entry


def check(calls: Sequence[ObjectCall], behaves: Object, *, steps_max: int = STEPS_MAX) -> SearchVerdict:
    """Look for an order in which each call takes effect between its invocation and its answer.

    1. Try the invocations before the first answer, one after the other; 2. one that the object allows takes effect,
    unless that was tried; 3. at an answer whose call has not taken effect, the last one is taken back.
    """
    head = _listed(calls)
    certain = sum(call.answered_us < NEVER_US for call in calls)
    taken: list[tuple[_Entry, ObjectState]] = []
    tried: set[tuple[int, ObjectState]] = set()
    behind, state, done = 0, 0, 0
    entry = head.after
    for _ in range(steps_max):
        if done == certain or entry is None:
            return SearchVerdict.LINEARIZABLE
        if entry.answer is not None:
            following = behaves(state, entry.what)
            mark = behind | 1 << entry.number
            if following is not None and (mark, following) not in tried:
                tried.add((mark, following))
                taken.append((entry, state))
                behind, state = mark, following
                done += not entry.is_open
                entry.take_out()
                entry = head.after
            else:
                entry = entry.after
            continue
        if not taken:
            return SearchVerdict.NOT_LINEARIZABLE
        last, state = taken.pop()
        behind &= ~(1 << last.number)
        done -= not last.is_open
        last.put_back()
        entry = last.after
    return SearchVerdict.UNDECIDED


def _listed(calls: Sequence[ObjectCall]) -> _Entry:
    moments: list[tuple[int, int, int, _Entry]] = []
    for number, call in enumerate(calls):
        assert call.invoked_us <= call.answered_us, "an answer comes after its question"
        answer = _Entry(number, call.what)
        invocation = _Entry(number, call.what, answer, call.answered_us == NEVER_US)
        moments += [(call.invoked_us, 0, number, invocation), (call.answered_us, 1, number, answer)]
    head = last = _Entry(-1, ())
    for *_, entry in sorted(moments, key=lambda moment: moment[:3]):
        entry.before, last.after = last, entry
        last = entry
    return head
