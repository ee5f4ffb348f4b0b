"""A leader's printout, in the words of Kafka's test server."""

from __future__ import annotations

from pykraft.server.stats import LATENCY_MS_MAX, Stats


def test_the_line_is_kafkas() -> None:
    stats = Stats(100.0)
    stats.committed(750, 75_000, 24.2)
    stats.committed(240, 24_000, 142.0)
    stats.committed(10, 1_000, 249.0)
    line = stats.line_if_due(105.0)
    assert line == "Throughput (bytes/second): 20000.00, Latency (ms): 24.0 p75 142.0 p99 249.0 p999"


def test_a_line_comes_every_five_seconds_in_which_something_was_committed() -> None:
    stats = Stats(0.0)
    stats.committed(1, 100, 5.0)
    assert stats.line_if_due(4.9) is None
    assert stats.line_if_due(5.0) is not None
    assert stats.line_if_due(20.0) is None
    stats.committed(1, 100, 5.0)
    assert stats.line_if_due(21.0) is None
    line = stats.line_if_due(25.0)
    assert line is not None
    assert line.startswith("Throughput (bytes/second): 20.00,")


def test_a_reset_begins_anew() -> None:
    stats = Stats(0.0)
    stats.committed(1, 100, 5.0)
    stats.reset(4.0)
    assert stats.line_if_due(5.0) is None
    assert stats.line_if_due(9.0) is None


def test_percentiles_count_records() -> None:
    stats = Stats(0.0)
    stats.committed(75, 1, 1.0)
    stats.committed(24, 1, 2.0)
    stats.committed(1, 1, 9.0)
    line = stats.line_if_due(5.0)
    assert line is not None
    assert line.endswith("Latency (ms): 1.0 p75 2.0 p99 9.0 p999")


def test_latencies_are_bounded() -> None:
    stats = Stats(0.0)
    stats.committed(1, 1, 10.0 * LATENCY_MS_MAX)
    line = stats.line_if_due(5.0)
    assert line is not None
    assert f" {LATENCY_MS_MAX:.1f} p99 " in line
