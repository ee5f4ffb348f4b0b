"""The two clocks of a real node, read together, and what is limited by time: how often something may happen.

Source: POSIX ``CLOCK_MONOTONIC`` and ``CLOCK_REALTIME``; the token bucket of RFC 2697.
"""

import time

from pykraft.types import Instant


def now() -> Instant:
    """Monotonic and wall time, in whole milliseconds."""
    return Instant(mono_ms=time.monotonic_ns() // 1_000_000, wall_ms=time.time_ns() // 1_000_000)


class TokenBucket:
    """Lets something happen ``per_s`` times a second, and ``most`` times at once; times are in seconds of any clock."""

    def __init__(self, per_s: float, most: float, now_s: float) -> None:
        self._per_s = per_s
        self._most = most
        self._tokens = most
        self._filled_s = now_s

    def take(self, now_s: float) -> bool:
        """Whether it may happen once more now; then it counts."""
        self._tokens = min(self._most, self._tokens + (now_s - self._filled_s) * self._per_s)
        self._filled_s = now_s
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True
