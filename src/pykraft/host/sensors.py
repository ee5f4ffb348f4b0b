"""Measurements of the last minute: average, maximum and rate over sliding samples; and the share of idle time.

A `Sensor` keeps `SAMPLES` samples of `SAMPLE_MS` each, as sums, so that recording costs constant time and memory. A
sample that began a whole window (`SAMPLES` x `SAMPLE_MS`) ago no longer counts, so a result covers the last 30 to 60
seconds. A rate is divided by the time since the oldest sample began. If that is less than a whole sample, one more
whole sample is added, so that a single burst after a silence does not look like a steady flow. Without values, average
and maximum are NaN, and a rate is 0.

Invariant: samples are in the order of their start. The caller passes the time (mono ms).

Source: Kafka's ``SampledStat``, ``Avg``, ``Max``, ``Rate`` with ``WindowedSum``, and ``TimeRatio``.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import nan
from typing import Final

SAMPLES: Final = 2
SAMPLE_MS: Final = 30_000
DEFAULT_RATIO: Final = 1.0


@dataclass(slots=True, kw_only=True)
class _Sample:
    begun_ms: float
    total: float = 0.0
    count: int = 0
    largest: float = 0.0


class Sensor:
    """Values of one kind, each >= 0."""

    def __init__(self) -> None:
        self._samples: deque[_Sample] = deque(maxlen=SAMPLES)

    def record(self, value: float, now_ms: float) -> None:
        """Record one value."""
        sample = self._samples[-1] if self._samples else None
        if sample is None or now_ms - sample.begun_ms >= SAMPLE_MS:
            sample = _Sample(begun_ms=now_ms)
            self._samples.append(sample)
        sample.total += value
        sample.count += 1
        sample.largest = max(sample.largest, value)

    def average(self, now_ms: float) -> float:
        """The mean of the values in the window; NaN without one."""
        samples = self._live(now_ms)
        return sum(sample.total for sample in samples) / sum(sample.count for sample in samples) if samples else nan

    def maximum(self, now_ms: float) -> float:
        """The largest value in the window; NaN without one."""
        return max((sample.largest for sample in self._live(now_ms)), default=nan)

    def rate_per_s(self, now_ms: float) -> float:
        """The sum of the values in the window, per second."""
        samples = self._live(now_ms)
        if not samples:
            return 0.0
        elapsed_ms = now_ms - samples[0].begun_ms
        missing = max(0, SAMPLES - 1 - int(elapsed_ms // SAMPLE_MS))
        return sum(sample.total for sample in samples) / (elapsed_ms + missing * SAMPLE_MS) * 1_000

    def _live(self, now_ms: float) -> list[_Sample]:
        return [sample for sample in self._samples if now_ms - sample.begun_ms < SAMPLES * SAMPLE_MS]


class TimeRatio:
    """The share of time covered by the recorded pieces since the last measurement.

    An interval ends where the last piece ended, not where it is measured, so a piece in progress belongs to the next
    interval. The ratio is then right however measurements and pieces overlap. It is capped at 1, and `DEFAULT_RATIO`
    while there is nothing to divide.
    """

    def __init__(self) -> None:
        self._total_ms = 0.0
        self._begun_ms: float | None = None
        self._last_ms: float | None = None

    def record(self, duration_ms: float, now_ms: float) -> None:
        """A piece of this length ended now."""
        if self._begun_ms is None:
            # The first piece only starts the first interval: we do not know how much of it lies within.
            self._begun_ms = now_ms
            return
        self._total_ms += duration_ms
        self._last_ms = now_ms

    def measure(self) -> float:
        """The ratio since the last measurement; starts the next interval."""
        if self._begun_ms is None or self._last_ms is None:
            return DEFAULT_RATIO
        elapsed_ms = self._last_ms - self._begun_ms
        ratio = min(1.0, self._total_ms / elapsed_ms) if elapsed_ms > 0 else DEFAULT_RATIO
        self._begun_ms, self._total_ms = self._last_ms, 0.0
        return ratio
