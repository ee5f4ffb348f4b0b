"""Metrics of the loop around a host: how idle it is, how late, and how many connections are open.

This module measures what needs a loop and a clock, and has the whole table of a node's metrics. Invariant: it measures
once in each period of the driver's watch, never for a frame or a call, so measuring costs the hot path nothing.

Idle is the time in which the loop's thread used no processor, whatever it waited for. So a loop that is stuck in a
blocking call, or waits for the interpreter, counts as idle here; its lag shows it.

Source: Kafka's ``KafkaRaftMetrics`` (``poll-idle-ratio-avg``); the others are ours.
"""

from __future__ import annotations

from typing import Final

from pykraft.host.metrics import HOST_METRICS, MetricKind, kafkas, ours
from pykraft.host.sensors import Sensor, TimeRatio

DRIVER_METRICS: Final = (
    kafkas(
        "poll-idle-ratio-avg",
        MetricKind.SENSOR,
        "0 to 1",
        "share of the time in which the loop was idle, since it was measured last",
    ),
    ours("event-loop-lag-ms", MetricKind.SENSOR, "ms", "how late the loop ran its latest timer"),
    ours("event-loop-lag-max-ms", MetricKind.SENSOR, "ms", "the longest event-loop-lag-ms"),
    ours("accepted-connections", MetricKind.GAUGE, "connections", "connections that others made to this node"),
    ours("dialed-connections", MetricKind.GAUGE, "connections", "connections that this node made"),
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
