"""Throughput and latency of committed records, worded as in Kafka's test server.

This module counts since the last printout. Latencies go into millisecond buckets up to `LATENCY_MS_MAX`; longer ones
count as that. It has no clock: callers pass loop times.

Source: Kafka's ``TestRaftServer.WriteStats``.
"""

from __future__ import annotations

from typing import Final

from pykraft.text.words import percentiles

PRINT_PERIOD_S: Final = 5.0
LATENCY_MS_MAX: Final = 60_000
SHARES: Final = {"p75": 0.75, "p99": 0.99, "p999": 0.999}


class Stats:
    """Counts since the last printout."""

    def __init__(self, now_s: float) -> None:
        self._buckets: dict[int, int] = {}
        self._records = 0
        self._size_bytes = 0
        self._since_s = now_s

    def reset(self, now_s: float) -> None:
        """Begin a new period."""
        self._buckets = {}
        self._records = self._size_bytes = 0
        self._since_s = now_s

    def committed(self, records: int, size_bytes: int, latency_ms: float) -> None:
        """Count this many records of ``size_bytes`` together, committed after ``latency_ms``."""
        bucket = min(round(latency_ms), LATENCY_MS_MAX)
        self._buckets[bucket] = self._buckets.get(bucket, 0) + records
        self._records += records
        self._size_bytes += size_bytes

    def line_if_due(self, now_s: float) -> str | None:
        """The printout after five seconds, which begins a new period; None if not due or nothing was committed."""
        elapsed_s = now_s - self._since_s
        if elapsed_s < PRINT_PERIOD_S:
            return None
        line = self._line(elapsed_s) if self._records else None
        self.reset(now_s)
        return line

    def _line(self, elapsed_s: float) -> str:
        shares = percentiles(self._buckets.items(), SHARES)
        latencies = " ".join(f"{latency_ms:.1f} {name}" for name, latency_ms in shares.items())
        rate = self._size_bytes / elapsed_s
        return f"Throughput (bytes/second): {rate:.2f}, Latency (ms): {latencies}"
