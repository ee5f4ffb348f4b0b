"""The two clocks of a real node, read together.

Source: POSIX ``CLOCK_MONOTONIC`` and ``CLOCK_REALTIME``.
"""

import time

from pykraft.types import Instant


def now() -> Instant:
    """Monotonic and wall time, in whole milliseconds."""
    return Instant(mono_ms=time.monotonic_ns() // 1_000_000, wall_ms=time.time_ns() // 1_000_000)
