"""Tracks which listener calls the current code runs in: its own task's, or that of the task that started it.

A listener call that waits for the end of its node, or for its own end, would wait for itself. So code that waits for
calls must know which of them wait for it. Invariant: a call is open from before the listener is called until it is
done; a task that the call started and left running is no longer part of it then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol


class Called(Protocol):
    """An object that calls a listener, in its own task."""

    task: asyncio.Task[None] | None


class ListenerCall:
    """One call of a listener, by its ``owner``; ``outer`` is the call in which this call's task was started."""

    def __init__(self, owner: Called, outer: ListenerCall | None) -> None:
        self.owner = owner
        self.outer = outer
        self.is_open = True


_innermost: ContextVar[ListenerCall | None] = ContextVar("pykraft_listener_call", default=None)


@contextmanager
def listener_call(owner: Called) -> Iterator[None]:
    """The block, and the tasks that it starts, run within a call of this owner's listener."""
    call = ListenerCall(owner, _innermost.get())
    token = _innermost.set(call)
    try:
        yield
    finally:
        call.is_open = False
        _innermost.reset(token)


def open_calls() -> list[ListenerCall]:
    """The calls that this code runs in and that are not done, innermost first."""
    found = []
    call = _innermost.get()
    while call is not None:
        if call.is_open:
            found.append(call)
        call = call.outer
    return found
