"""What the machine around a host is measured by: how idle the loop is, how late, and how many connections stand.

Owns the measurements that need a loop and a clock, and the whole table of a node's metrics. Invariant: it is measured
once in each period of the driver's watch, never for a frame or a call, so that measuring costs the hot path nothing.

Idle is the time in which the loop's thread did not use the processor, whatever it waited for. So a loop that is held up
by a blocking call, or waits for the interpreter, counts as idle here and shows in its lag.

Source: Kafka's ``KafkaRaftMetrics`` (``poll-idle-ratio-avg``); the others are ours.
"""

from __future__ import annotations

from typing import Final

from pykraft.host.metrics import HOST_METRICS, Kind, Metric
from pykraft.host.sensors import Sensor, TimeRatio

DRIVER_METRICS: Final = (
    Metric(
        name="poll-idle-ratio-avg",
        kind=Kind.SENSOR,
        unit="0 to 1",
        meaning="share of the time in which the loop was idle, since it was measured last",
    ),
    Metric(
        name="event-loop-lag-ms",
        kind=Kind.SENSOR,
        unit="ms",
        meaning="how much too late the loop came to its newest timer",
        is_ours=True,
    ),
    Metric(
        name="event-loop-lag-max-ms",
        kind=Kind.SENSOR,
        unit="ms",
        meaning="the longest event-loop-lag-ms",
        is_ours=True,
    ),
    Metric(
        name="accepted-connections",
        kind=Kind.GAUGE,
        unit="connections",
        meaning="connections that others made to this node",
        is_ours=True,
    ),
    Metric(
        name="dialed-connections",
        kind=Kind.GAUGE,
        unit="connections",
        meaning="connections that this node made",
        is_ours=True,
    ),
)
METRICS: Final = (*HOST_METRICS, *DRIVER_METRICS)
"""Everything that a node tells, in the order of the documentation."""


class LoopWatch:
    """How idle and how late a loop is; times in ms come with the calls, those of the thread are processor time."""

    def __init__(self) -> None:
        self._idle = TimeRatio()
        self._lag = Sensor()
        self._newest_lag_ms = 0.0
        self._last: tuple[float, float] | None = None

    def ticked(self, lag_ms: float, now_ms: float, thread_ms: float) -> None:
        """The watch's timer came, so much too late; the thread has used so much processor time since it began."""
        self._newest_lag_ms = max(0.0, lag_ms)
        self._lag.record(self._newest_lag_ms, now_ms)
        idle_ms = 0.0
        if self._last is not None:
            last_ms, last_thread_ms = self._last
            idle_ms = max(0.0, now_ms - last_ms - (thread_ms - last_thread_ms))
        self._last = (now_ms, thread_ms)
        self._idle.record(idle_ms, now_ms)

    def read(self, now_ms: float) -> dict[str, int | float | str]:
        """The values at this moment; the idle ratio begins a new interval."""
        longest_ms = self._lag.maximum(now_ms)
        return {
            "poll-idle-ratio-avg": self._idle.measure(),
            "event-loop-lag-ms": self._newest_lag_ms,
            "event-loop-lag-max-ms": longest_ms,
        }
