"""Callers that wait for the outcome of a request to the core, such as a transfer, or of a read.

Invariant: each gets exactly one outcome, also when the node ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from pykraft.errors import NotRunningError, OutcomeUnknownError
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


OnOutcome: TypeAlias = Callable[[Exception | None], None]


class PendingRequests:
    """Waiting callers by handle."""

    def __init__(self) -> None:
        self._waiting: dict[int, OnOutcome] = {}
        self._next_handle = 1

    def begin(self, on_outcome: OnOutcome) -> int:
        """Register a request; returns its handle."""
        handle, self._next_handle = self._next_handle, self._next_handle + 1
        self._waiting[handle] = on_outcome
        return handle

    def answered(self, handle: int, error: Exception | None) -> None:
        """The core has the outcome: None when it is done, or possible."""
        self._waiting.pop(handle)(error)

    def refuse(self, handle: int) -> None:
        """The node had stopped before the core got this request, so it is not carried out."""
        self._waiting.pop(handle)(NotRunningError("the node has stopped"))

    def end(self) -> None:
        """The node stops: the other nodes may still complete what was started, or not."""
        waiting, self._waiting = self._waiting, {}
        for on_outcome in waiting.values():
            on_outcome(OutcomeUnknownError("the node stopped before it knew the outcome"))
