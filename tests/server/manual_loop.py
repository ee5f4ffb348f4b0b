"""An event loop whose time a test sets, so that everything due by then runs, and a transport that records the calls.

The loop keeps callbacks and timers in their order. It does not support sockets.
"""

import asyncio
import heapq
from collections.abc import Callable
from itertools import count
from typing import cast

from pykraft.types import Buffer


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


class FakeTransport(asyncio.Transport):
    """Notes what is asked of it."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.unsent_size_bytes = 0
        self.is_reading_paused = False
        self.is_closed = False
        self.is_aborted = False

    def write(self, data: Buffer) -> None:
        self.written.append(bytes(data))

    def get_write_buffer_size(self) -> int:
        return self.unsent_size_bytes

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def pause_reading(self) -> None:
        self.is_reading_paused = True

    def resume_reading(self) -> None:
        self.is_reading_paused = False

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = self.is_aborted = True
