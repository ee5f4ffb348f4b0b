"""Which calls of listeners the present code runs in: its own task's, or that of the task that began it.

A call of a listener that waits for the end of its node, or for its own end, would wait for itself. So whoever waits for
calls has to know which of them wait for it. Invariant: a call is open from before the listener is called until it is
done; what a call began and left running is not within it any more when it is done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol


class Called(Protocol):
    """Who calls a listener, in a task of its own."""

    task: asyncio.Task[None] | None


class ListenerCall:
    """One call of a listener, by its ``owner``; the call that its task was begun in is the ``outer`` one."""

    def __init__(self, owner: Called, outer: ListenerCall | None) -> None:
        self.owner = owner
        self.outer = outer
        self.is_open = True


_innermost: ContextVar[ListenerCall | None] = ContextVar("pykraft_listener_call", default=None)


@contextmanager
def listener_call(owner: Called) -> Iterator[None]:
    """What runs in the block, and the tasks that it begins, run within a call of this owner's listener."""
    call = ListenerCall(owner, _innermost.get())
    token = _innermost.set(call)
    try:
        yield
    finally:
        call.is_open = False
        _innermost.reset(token)


def open_calls() -> list[ListenerCall]:
    """The calls that this code runs in and that are not done, the innermost first."""
    found = []
    call = _innermost.get()
    while call is not None:
        if call.is_open:
            found.append(call)
        call = call.outer
    return found
