"""Callers that wait until a read may begin, by the handle that the core knows.

Invariant: each gets exactly one outcome, also when the node ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from pykraft.errors import NotRunningError
from pykraft.types import Offset

OnReadIndex: TypeAlias = Callable[[Offset | Exception], None]


class PendingReads:
    """Waiting callers by handle."""

    def __init__(self) -> None:
        self._waiting: dict[int, OnReadIndex] = {}
        self._next_handle = 1

    def begin(self, on_outcome: OnReadIndex) -> int:
        """Register a read; returns its handle."""
        handle, self._next_handle = self._next_handle, self._next_handle + 1
        self._waiting[handle] = on_outcome
        return handle

    def answered(self, handle: int, outcome: Offset | Exception) -> None:
        """The core has the outcome."""
        self._waiting.pop(handle)(outcome)

    def end(self) -> None:
        """The node has ended: no read begins any more."""
        waiting, self._waiting = self._waiting, {}
        for on_outcome in waiting.values():
            on_outcome(NotRunningError("the node has ended"))
