"""The two clocks of a real node."""

import time

from pykraft.server.clock import now


def test_both_clocks_are_read_in_whole_milliseconds() -> None:
    before_mono, before_wall = time.monotonic() * 1_000, time.time() * 1_000
    instant = now()
    after_mono, after_wall = time.monotonic() * 1_000, time.time() * 1_000
    assert before_mono - 1 <= instant.mono_ms <= after_mono
    assert before_wall - 1 <= instant.wall_ms <= after_wall
    assert isinstance(instant.mono_ms, int)
    assert isinstance(instant.wall_ms, int)


def test_monotonic_time_never_goes_back() -> None:
    readings = [now().mono_ms for _ in range(1_000)]
    assert readings == sorted(readings)
