"""The two clocks of a real node."""

import time

from pykraft.server.clock import TokenBucket, now


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


def test_bucket_lets_so_much_happen_at_once_and_then_at_its_rate() -> None:
    bucket = TokenBucket(4, 2, 10.0)
    assert [bucket.take(10.0) for _ in range(3)] == [True, True, False]
    assert [bucket.take(10.25) for _ in range(2)] == [True, False]
    assert [bucket.take(99.0) for _ in range(3)] == [True, True, False]
