"""An event loop without its own clock: a test sets the time, and everything due by then runs.

It keeps callbacks and timers in their order. It does not support sockets.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from itertools import count
from typing import cast


class ManualLoop:
    """Time begins at zero and moves in `run_until`."""

    def __init__(self) -> None:
        self._now_s = 0.0
        self._order = count()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []

    @property
    def as_loop(self) -> asyncio.AbstractEventLoop:
        """Itself, for those who ask for the whole of a loop and need this part of it."""
        return cast("asyncio.AbstractEventLoop", self)

    @property
    def is_idle(self) -> bool:
        """True when nothing is due, ever."""
        return all(handle.cancelled() for _, _, handle in self._timers)

    def time(self) -> float:
        """See `asyncio.AbstractEventLoop`."""
        return self._now_s

    def call_soon(self, callback: Callable[..., object], *args: object) -> asyncio.Handle:
        """See `asyncio.AbstractEventLoop`."""
        return self.call_later(0.0, callback, *args)

    def call_later(self, delay: float, callback: Callable[..., object], *args: object) -> asyncio.TimerHandle:
        """See `asyncio.AbstractEventLoop`."""
        handle = asyncio.TimerHandle(self._now_s + delay, callback, args, self.as_loop)
        heapq.heappush(self._timers, (handle.when(), next(self._order), handle))
        return handle

    def run_until(self, time_s: float) -> None:
        """Do everything that is due up to this time, in order; what it asks for too."""
        while self._timers and self._timers[0][0] <= time_s:
            self._now_s, _, handle = heapq.heappop(self._timers)
            if not handle.cancelled():
                handle._run()
        self._now_s = time_s

    def get_debug(self) -> bool:
        """Asked by handles."""
        return False

    def call_exception_handler(self, context: dict[str, object]) -> None:
        """Told by handles: what a callback raises is the test's failure."""
        error = context["exception"]
        assert isinstance(error, BaseException)
        raise error

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Told by handles."""
