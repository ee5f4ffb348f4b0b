"""Tracks which listener calls the current code runs in: its own task's, or that of the task that started it.

A listener call that waits for the end of its node, or for its own end, would wait for itself. So code that waits for
calls must know which of them wait for it. Invariant: a call is open from before the listener is called until it is
done; a task that the call started and left running is no longer part of it then.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar, Token
from typing import Protocol


class Called(Protocol):
    """An object that calls a listener, in its own task."""

    task: asyncio.Task[None] | None


class ListenerCall:
    """One call of a listener, by its ``owner``: the block of a ``with``, and the tasks that it starts."""

    def __init__(self, owner: Called) -> None:
        self.owner = owner
        self.outer = _innermost.get()
        """The call in which this call's task was started."""
        self.is_open = True
        self._before: Token[ListenerCall | None] | None = None

    def __enter__(self) -> None:
        self._before = _innermost.set(self)

    def __exit__(self, *error: object) -> None:
        self.is_open = False
        assert self._before is not None, "it was entered"
        _innermost.reset(self._before)


_innermost: ContextVar[ListenerCall | None] = ContextVar("pykraft_listener_call", default=None)


def open_calls() -> list[ListenerCall]:
    """The calls that this code runs in and that are not done, innermost first."""
    found = []
    call = _innermost.get()
    while call is not None:
        if call.is_open:
            found.append(call)
        call = call.outer
    return found
