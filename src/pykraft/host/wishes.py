"""Who waits to hear what came of a wish: an upgrade of ``kraft.version``, or a transfer of the leadership.

Invariant: each is told exactly once; the end of the node is an answer, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from pykraft.errors import NotRunningError, OutcomeUnknownError

OnOutcome: TypeAlias = Callable[[Exception | None], None]


class Wishes:
    """Wishes by handle."""

    def __init__(self) -> None:
        self._waiting: dict[int, OnOutcome] = {}
        self._next_handle = 1

    def begin(self, on_outcome: OnOutcome) -> int:
        """Note a wish; returns its handle."""
        handle, self._next_handle = self._next_handle, self._next_handle + 1
        self._waiting[handle] = on_outcome
        return handle

    def answered(self, handle: int, error: Exception | None) -> None:
        """The core has an answer: None when it is done, or could be."""
        self._waiting.pop(handle)(error)

    def refuse(self, handle: int) -> None:
        """The node had stopped before the core heard of this one: nothing comes of it."""
        self._waiting.pop(handle)(NotRunningError("the node has stopped"))

    def end(self) -> None:
        """The node stops: what was begun may still be carried out by the others, or not."""
        waiting, self._waiting = self._waiting, {}
        for on_outcome in waiting.values():
            on_outcome(OutcomeUnknownError("the node stopped before it knew what came of this"))
