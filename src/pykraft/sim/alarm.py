"""The one timer of a process: it rings when the machine's monotonic clock shows the time that the host asked for.

What was planned for an earlier time rings unheard, and is planned again. Invariant: a clock that begins to go at
another rate takes its timer with it, as a kernel's timers follow ``CLOCK_MONOTONIC`` when NTP slews it.

Source: Linux man-pages ``timerfd_create(2)``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pykraft.sim.clock import NodeClock


class Alarm:
    """At most one time to wake up at."""

    def __init__(
        self, clock: NodeClock, later: Callable[[int, Callable[[], None]], None], ring: Callable[[], None]
    ) -> None:
        self._clock = clock
        self._later = later
        self._ring = ring
        self._wanted_ms: int | None = None
        self._planned_ms: int | None = None
        self._plans = 0
        clock.on_new_rate = self._follow

    def at(self, mono_ms: int | None) -> None:
        """From now on this is the time, or there is none."""
        self._wanted_ms = mono_ms
        if mono_ms is not None and (self._planned_ms is None or mono_ms < self._planned_ms):
            self._plan(mono_ms)

    def _plan(self, mono_ms: int) -> None:
        self._planned_ms = mono_ms
        self._plans += 1
        self._later(self._clock.until_us(mono_ms), partial(self._end, self._plans))

    def _follow(self) -> None:
        """The same time of the clock is at another time of the world."""
        if self._planned_ms is not None:
            self._plan(self._planned_ms)

    def _end(self, plan: int) -> None:
        """The time has come, unless this plan was given up, or the host wants a later time by now."""
        if plan != self._plans:
            return
        self._planned_ms = None
        if self._wanted_ms is None:
            return
        if self._clock.until_us(self._wanted_ms) > 0:
            self._plan(self._wanted_ms)
        else:
            self._ring()
