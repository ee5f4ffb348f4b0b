"""An asyncio loop of a simulated process: it runs tasks in virtual time, and nothing else.

It has no sockets, threads or signals. Invariant: it runs only while the process does. A process that was killed leaves
its tasks where they were, and one that is paused runs them when it continues. Which task runs next depends on the
world's agenda alone.

Source: madsim and FoundationDB's Flow run the program's own tasks in simulated time, too.
"""

from __future__ import annotations

import asyncio
import math
import sys
from asyncio import events
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context, copy_context
from functools import partial
from types import CoroutineType
from typing import Any, Final
from weakref import WeakSet

from pykraft.sim.machine.clock import NodeClock

Callback = Callable[..., object]
TASKS_BETWEEN_SWEEPS: Final = 64
TURNS_MAX: Final = 10_000
"""Turns within a millisecond; with more, a task waits for nothing and never ends, and neither would the world."""
CLOSED_MAX: Final = 20
"""A coroutine that is closed may wait again in its last lines: so often is it closed."""


class VirtualLoop(asyncio.AbstractEventLoop):
    """The loop of one process."""

    def __init__(
        self,
        clock: NodeClock,
        later: Callable[[int, Callable[[], None]], None],
        failed: Callable[[dict[str, Any]], None],
    ) -> None:
        """``later`` calls after so many microseconds; ``failed`` hears of exceptions that no task handles."""
        self._clock = clock
        self._later = later
        self._failed = failed
        self._ready: deque[tuple[asyncio.Handle, Callback, tuple[Any, ...], Context]] = deque()
        self._is_due = False
        self._turns = 0
        """Since the clock showed another millisecond."""
        self._turned_ms = 0
        self._tasks: list[tuple[asyncio.Task[Any], Any, Context]] = []
        self._generators: WeakSet[Any] = WeakSet()
        """Asynchronous generators that have begun."""

    def abandon(self) -> None:
        """The world is over: drop the tasks that have not ended, without a word."""
        self._failed = lambda _: None
        for generator in [*self._generators]:
            # Nothing reaches it from outside, so what it waits for is closed by itself, and first.
            if isinstance(waited := generator.ag_await, CoroutineType):
                _close(waited, copy_context())
        for task, coroutine, context in self._tasks:
            if not task.done():
                task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001 - the only way to say so
                _close(coroutine, context)
        self._tasks.clear()
        self._ready.clear()

    def time(self) -> float:
        """The machine's monotonic clock, in seconds."""
        return self._clock.instant.mono_ms / 1_000

    def call_soon(self, callback: Callback, *args: Any, context: Context | None = None) -> asyncio.Handle:  # type: ignore[override]  # noqa: ANN401
        """See asyncio."""
        context = copy_context() if context is None else context
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append((handle, callback, args, context))
        if not self._is_due:
            self._is_due = True
            self._later(0, self._run)
        return handle

    def call_later(  # type: ignore[override]
        self,
        delay: float,
        callback: Callback,
        *args: Any,  # noqa: ANN401 - as asyncio's
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """See asyncio."""
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callback,
        *args: Any,  # noqa: ANN401 - as asyncio's
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """See asyncio."""
        context = copy_context() if context is None else context
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        due_ms = math.ceil(when * 1_000)
        if due_ms / 1_000 < when:  # the product was rounded down
            due_ms += 1
        self._plan(due_ms, handle, partial(self._ring, due_ms, handle, callback, args, context))
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        """See asyncio."""
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, *, name: str | None = None, context: Context | None = None) -> asyncio.Task[Any]:  # noqa: ANN401
        """See asyncio."""
        context = copy_context() if context is None else context
        task = asyncio.Task(coro, loop=self, name=name, context=context)
        self._tasks = [known for known in self._tasks if not known[0].done()] if self._is_crowded else self._tasks
        self._tasks.append((task, coro, context))
        return task

    @property
    def _is_crowded(self) -> bool:
        """Now and then: tasks that have ended leave the list."""
        return len(self._tasks) % TASKS_BETWEEN_SWEEPS == TASKS_BETWEEN_SWEEPS - 1

    def is_running(self) -> bool:
        """See asyncio."""
        return True

    def is_closed(self) -> bool:
        """See asyncio."""
        return False

    def get_debug(self) -> bool:
        """See asyncio."""
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """See asyncio."""
        self._failed(context)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Called by asyncio; a cancelled timer rings for nobody."""

    def _plan(self, due_ms: int, handle: asyncio.TimerHandle, ring: Callable[[], None]) -> None:
        self._later(self._clock.until_us(due_ms), lambda: None if handle.cancelled() else ring())

    def _ring(
        self, due_ms: int, handle: asyncio.TimerHandle, callback: Callback, args: tuple[Any, ...], context: Context
    ) -> None:
        if self._clock.until_us(due_ms) > 0:  # the clock goes more slowly by now
            self._plan(due_ms, handle, partial(self._ring, due_ms, handle, callback, args, context))
            return
        self._ready.append((handle, callback, args, context))
        if not self._is_due:
            self._run()

    def _run(self) -> None:
        """One turn: run what is ready now; what becomes ready meanwhile runs in the next turn."""
        self._is_due = False
        self._count_turn()
        before = events._get_running_loop()  # noqa: SLF001 - asyncio's own way to run a loop within another
        hooks = sys.get_asyncgen_hooks()
        events._set_running_loop(self)  # noqa: SLF001
        # A generator that nobody has closed ends with its process: when it is collected is no matter of the seed.
        sys.set_asyncgen_hooks(firstiter=self._generators.add, finalizer=lambda _: None)
        try:
            for _ in range(len(self._ready)):
                handle, callback, args, context = self._ready.popleft()
                if not handle.cancelled():
                    context.run(callback, *args)
        finally:
            events._set_running_loop(before)  # noqa: SLF001
            sys.set_asyncgen_hooks(*hooks)
            if self._ready and not self._is_due:
                self._is_due = True
                self._later(0, self._run)

    def _count_turn(self) -> None:
        now_ms = self._clock.instant.mono_ms
        self._turns = self._turns + 1 if now_ms == self._turned_ms else 1
        self._turned_ms = now_ms
        if self._turns == TURNS_MAX:
            self._failed({"message": f"{TURNS_MAX} turns within a millisecond: a task goes on without waiting"})


def _close(coroutine: Any, context: Context) -> None:  # noqa: ANN401 - asyncio's coroutines have no one type
    """End a coroutine. Its last lines run in the context in which it did; what they raise concerns nobody."""
    for _ in range(CLOSED_MAX):
        with suppress(BaseException):
            context.run(coroutine.close)
        if coroutine.cr_frame is None:
            return
