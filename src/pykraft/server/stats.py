"""Throughput and latency of what was committed, printed as Kafka's test server does.

Latencies are counted in millisecond buckets up to `LATENCY_MS_MAX`; what takes longer counts as that.

Source: Kafka ``TestRaftServer.WriteStats``.
"""

from __future__ import annotations

import asyncio

PRINT_PERIOD_S = 5.0
LATENCY_MS_MAX = 60_000


class Stats:
    """Counts since the last printout."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._buckets: dict[int, int] = {}
        self._records = 0
        self._size_bytes = 0
        self._since_s = loop.time()

    def reset(self) -> None:
        """Begin a new period."""
        self._buckets = {}
        self._records = self._size_bytes = 0
        self._since_s = self._loop.time()

    def committed(self, records: int, size_bytes: int, latency_ms: float) -> None:
        """That many records of together ``size_bytes`` were committed after this time."""
        bucket = min(round(latency_ms), LATENCY_MS_MAX)
        self._buckets[bucket] = self._buckets.get(bucket, 0) + records
        self._records += records
        self._size_bytes += size_bytes

    def percentile_ms(self, share: float) -> float:
        """The latency that this share of the records did not exceed; 0 without records."""
        needed = share * self._records
        seen = 0
        for bucket in sorted(self._buckets):
            seen += self._buckets[bucket]
            if seen >= needed:
                return float(bucket)
        return 0.0

    def line(self) -> str:
        """The printout of this period."""
        elapsed_s = max(self._loop.time() - self._since_s, 1e-9)
        p75, p99, p999 = (self.percentile_ms(share) for share in (0.75, 0.99, 0.999))
        rate = self._size_bytes / elapsed_s
        return f"Throughput (bytes/second): {rate:.2f}, Latency (ms): {p75:.1f} p75 {p99:.1f} p99 {p999:.1f} p999"

    def print_if_due(self) -> None:
        """Print and begin anew every five seconds in which something was committed."""
        if self._loop.time() - self._since_s >= PRINT_PERIOD_S:
            if self._records:
                print(self.line(), flush=True)  # noqa: T201 - this printout is the product
            self.reset()
