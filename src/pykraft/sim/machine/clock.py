"""Virtual time: an agenda ordered by time; entries of the same time keep the order in which they were planned.

Nothing happens between two entries, so the order of the entries is the whole run. Times are in microseconds, because a
network hop takes less than one of the host's milliseconds. Each machine has clocks of its own, which may be wrong, and
a timer that follows them.
"""

import heapq
from collections.abc import Callable
from functools import partial

from pykraft.types import Instant

WALL_START_MS = 1_700_000_000_000
TRUE_RATE_PPM = 1_000_000


class Clock:
    """The clock of a world and its agenda."""

    def __init__(self) -> None:
        self.now_us = 0
        self._agenda: list[tuple[int, int, Callable[[], None]]] = []
        self._planned = 0

    @property
    def instant(self) -> Instant:
        """The time as a host with a correct clock sees it."""
        now_ms = self.now_us // 1_000
        return Instant(mono_ms=now_ms, wall_ms=WALL_START_MS + now_ms)

    @property
    def happened(self) -> int:
        """How many entries have been carried out so far."""
        return self._planned - len(self._agenda)

    def after(self, delay_us: int, act: Callable[[], None]) -> None:
        """Call ``act`` after this delay; entries of the same time keep the order in which they were planned."""
        assert delay_us >= 0
        self._planned += 1
        heapq.heappush(self._agenda, (self.now_us + delay_us, self._planned, act))

    def advance(self) -> bool:
        """Carry out the next entry; False when the agenda is empty."""
        if not self._agenda:
            return False
        self.now_us, _, act = heapq.heappop(self._agenda)
        act()
        return True


class NodeClock:
    """The clocks of one machine: the monotonic one may be fast or slow, the wall clock may jump."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since_us = 0
        self._mono_us = 0
        self._rate_ppm = TRUE_RATE_PPM
        self._wall_offset_ms = 0
        self.on_new_rate: Callable[[], None] = lambda: None
        """Called when the monotonic clock begins to go faster or slower."""

    @property
    def instant(self) -> Instant:
        """The time as the host on this machine sees it."""
        now_ms = self._clock.now_us // 1_000
        return Instant(mono_ms=self._shown_us() // 1_000, wall_ms=WALL_START_MS + now_ms + self._wall_offset_ms)

    def until_us(self, mono_ms: int) -> int:
        """How long it takes until the monotonic clock shows this time; 0 when it shows it already."""
        return max(0, -(-(mono_ms * 1_000 - self._shown_us()) * TRUE_RATE_PPM // self._rate_ppm))

    def go_at(self, rate_ppm: int) -> None:
        """From now on the monotonic clock advances by this many microseconds per true second."""
        assert rate_ppm > 0, "it never stands still, and never goes back"
        self._mono_us, self._since_us, self._rate_ppm = self._shown_us(), self._clock.now_us, rate_ppm
        self.on_new_rate()

    def jump(self, wall_ms: int) -> None:
        """Set the wall clock forward or back."""
        self._wall_offset_ms += wall_ms

    def set_right(self) -> None:
        """Correct both clocks; the monotonic clock keeps what it has gained or lost."""
        self.go_at(TRUE_RATE_PPM)
        self._wall_offset_ms = 0

    def _shown_us(self) -> int:
        if self._rate_ppm == TRUE_RATE_PPM:
            return self._mono_us + self._clock.now_us - self._since_us
        return self._mono_us + (self._clock.now_us - self._since_us) * self._rate_ppm // TRUE_RATE_PPM


class Alarm:
    """The one timer of a process: it rings when the machine's monotonic clock shows the time that the host asked for.

    When an earlier plan comes due too soon, the timer is planned again. When the clock changes its rate, the timer
    follows, as a kernel's timers follow ``CLOCK_MONOTONIC`` when NTP slews it (``timerfd_create(2)``).
    """

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
        """Ring at this time, or never (None); replaces the former time."""
        self._wanted_ms = mono_ms
        if mono_ms is not None and (self._planned_ms is None or mono_ms < self._planned_ms):
            self._plan(mono_ms)

    def _plan(self, mono_ms: int) -> None:
        self._planned_ms = mono_ms
        self._plans += 1
        self._later(self._clock.until_us(mono_ms), partial(self._end, self._plans))

    def _follow(self) -> None:
        """Plan again: with the new rate, the clock shows the wanted time at another moment of virtual time."""
        if self._planned_ms is not None:
            self._plan(self._planned_ms)

    def _end(self, plan: int) -> None:
        """Ring, unless a newer plan replaced this one or the host now wants a later time."""
        if plan != self._plans:
            return
        self._planned_ms = None
        if self._wanted_ms is None:
            return
        if self._clock.until_us(self._wanted_ms) > 0:
            self._plan(self._wanted_ms)
        else:
            self._ring()
