"""Who waits to hear what came of an upgrade of ``kraft.version``.

Invariant: each is told exactly once; the core answers within the step that it is asked in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from pykraft.errors import NotRunningError

OnUpgrade: TypeAlias = Callable[[Exception | None], None]


class Upgrades:
    """Requests by handle."""

    def __init__(self) -> None:
        self._waiting: dict[int, OnUpgrade] = {}
        self._next_handle = 1

    def begin(self, on_outcome: OnUpgrade) -> int:
        """Note a request; returns its handle."""
        handle, self._next_handle = self._next_handle, self._next_handle + 1
        self._waiting[handle] = on_outcome
        return handle

    def answered(self, handle: int, error: Exception | None) -> None:
        """The core has an answer: None when it is done, or could be."""
        self._waiting.pop(handle)(error)

    def end(self) -> None:
        """The node stops: nothing will come of what waits."""
        waiting, self._waiting = self._waiting, {}
        for on_outcome in waiting.values():
            on_outcome(NotRunningError("the node has stopped"))
