"""How idle and how late a loop is, with hand-moved clocks; the table of all metrics in code and documentation."""

from __future__ import annotations

from math import isnan

import pytest

from pykraft.host.sensors import SAMPLE_MS, SAMPLES
from pykraft.server.metrics import METRICS, LoopWatch
from pykraft.server.prometheus import CONNECTIONS_MAX, EXCHANGE_TIMEOUT_S
from tests.tidy.repository import ROOT

pytestmark = pytest.mark.conformance(54)


def test_every_metric_has_one_row() -> None:
    names = [metric.name for metric in METRICS]
    assert len(set(names)) == len(names)
    assert all(metric.meaning for metric in METRICS)


def test_a_loop_that_was_never_watched_counts_as_idle() -> None:
    told = LoopWatch().read(0)
    assert (told["poll-idle-ratio-avg"], told["event-loop-lag-ms"]) == (1, 0)
    assert isnan(float(told["event-loop-lag-max-ms"]))


@pytest.mark.conformance(118)
def test_idle_is_what_the_thread_did_not_compute_since_the_last_measurement() -> None:
    watch = LoopWatch()
    watch.ticked(0, now_ms=1_000, thread_ms=700)
    watch.ticked(0, now_ms=1_100, thread_ms=725)
    assert watch.read(1_150)["poll-idle-ratio-avg"] == 0.75
    watch.ticked(0, now_ms=1_200, thread_ms=775)
    assert watch.read(1_250)["poll-idle-ratio-avg"] == 0.5, "the interval ended at the last tick, not at the reading"
    assert watch.read(1_260)["poll-idle-ratio-avg"] == 1


def test_a_clock_of_the_thread_that_runs_ahead_is_no_negative_idleness() -> None:
    watch = LoopWatch()
    watch.ticked(0, now_ms=0, thread_ms=0)
    watch.ticked(0, now_ms=100, thread_ms=101)
    assert watch.read(100)["poll-idle-ratio-avg"] == 0


def test_the_lag_is_the_newest_and_the_longest_of_the_last_minute() -> None:
    watch = LoopWatch()
    watch.ticked(250, now_ms=0, thread_ms=0)
    watch.ticked(-0.5, now_ms=100, thread_ms=1)
    told = watch.read(100)
    assert (told["event-loop-lag-ms"], told["event-loop-lag-max-ms"]) == (0, 250)
    watch.ticked(3, now_ms=60_000, thread_ms=2)
    assert watch.read(60_000)["event-loop-lag-max-ms"] == 3


def table() -> str:
    """The table of the page."""
    rows = [("name", "type", "unit", "meaning", "whose"), ("---",) * 5]
    for metric in METRICS:
        whose = "ours" if metric.is_ours else "Kafka's"
        rows.append((f"`{metric.name}`", metric.kind.value, metric.unit, metric.meaning, whose))
    return "".join(f"| {' | '.join(row)} |\n".replace("|  |", "| |") for row in rows)


def test_the_page_lists_every_metric_as_the_code_does(request: pytest.FixtureRequest) -> None:
    path = ROOT / "docs" / "metrics.md"
    page = path.read_text()
    head, _, rest = page.partition("<!-- metrics -->\n")
    expected = f"{head}<!-- metrics -->\n\n{table()}\n<!-- end -->{rest.partition('<!-- end -->')[2]}"
    if request.config.getoption("--rewrite"):
        path.write_text(expected)
    assert path.read_text() == expected


def test_what_the_page_says_in_numbers_is_so() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text()
    assert f"At most {CONNECTIONS_MAX} scrapes" in page
    assert f"within {EXCHANGE_TIMEOUT_S:.0f} seconds" in page
    assert "pykraft.prometheus.listener=" in page
    assert f"samples of {SAMPLE_MS // 1_000} seconds" in page
    assert SAMPLES == 2
