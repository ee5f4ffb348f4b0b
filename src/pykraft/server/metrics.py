"""Metrics of the loop around a host: how idle it is, how late, and how many connections are open.

This module measures what needs a loop and a clock, and has the whole table of a node's metrics. Invariant: it measures
once in each period of the driver's watch, never for a frame or a call, so measuring costs the hot path nothing.

Idle is the time in which the loop's thread used no processor, whatever it waited for. So a loop that is stuck in a
blocking call, or waits for the interpreter, counts as idle here; its lag shows it.

Source: Kafka's ``KafkaRaftMetrics`` (``poll-idle-ratio-avg``); the others are ours.
"""

from __future__ import annotations

from typing import Final

from pykraft.host.metrics import HOST_METRICS, Metric, MetricKind
from pykraft.host.sensors import Sensor, TimeRatio

DRIVER_METRICS: Final = (
    Metric(
        name="poll-idle-ratio-avg",
        kind=MetricKind.SENSOR,
        unit="0 to 1",
        meaning="share of the time in which the loop was idle, since it was measured last",
    ),
    Metric(
        name="event-loop-lag-ms",
        kind=MetricKind.SENSOR,
        unit="ms",
        meaning="how late the loop ran its latest timer",
        is_ours=True,
    ),
    Metric(
        name="event-loop-lag-max-ms",
        kind=MetricKind.SENSOR,
        unit="ms",
        meaning="the longest event-loop-lag-ms",
        is_ours=True,
    ),
    Metric(
        name="accepted-connections",
        kind=MetricKind.GAUGE,
        unit="connections",
        meaning="connections that others made to this node",
        is_ours=True,
    ),
    Metric(
        name="dialed-connections",
        kind=MetricKind.GAUGE,
        unit="connections",
        meaning="connections that this node made",
        is_ours=True,
    ),
)
METRICS: Final = (*HOST_METRICS, *DRIVER_METRICS)
"""All metrics of a node, in the order of the documentation."""


class LoopWatch:
    """How idle and how late a loop is; callers pass times in ms, and for the thread processor time."""

    def __init__(self) -> None:
        self._idle = TimeRatio()
        self._lag = Sensor()
        self._newest_lag_ms = 0.0
        self._last: tuple[float, float] | None = None

    def ticked(self, lag_ms: float, now_ms: float, thread_ms: float) -> None:
        """The watch's timer fired this much too late; ``thread_ms`` is the processor time of the thread so far."""
        self._newest_lag_ms = max(0.0, lag_ms)
        self._lag.record(self._newest_lag_ms, now_ms)
        idle_ms = 0.0
        if self._last is not None:
            last_ms, last_thread_ms = self._last
            idle_ms = max(0.0, now_ms - last_ms - (thread_ms - last_thread_ms))
        self._last = (now_ms, thread_ms)
        self._idle.record(idle_ms, now_ms)

    def read(self, now_ms: float) -> dict[str, int | float | str]:
        """The current values; the idle ratio begins a new interval."""
        longest_ms = self._lag.maximum(now_ms)
        return {
            "poll-idle-ratio-avg": self._idle.measure(),
            "event-loop-lag-ms": self._newest_lag_ms,
            "event-loop-lag-max-ms": longest_ms,
        }
