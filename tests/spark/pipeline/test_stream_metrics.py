"""What a scrape tells of a stream, from reports as Spark makes them; the table in the documentation."""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import nan
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pykraft.local.child import wait_until
from pykraft.security.contexts import Side
from pykraft.server.binding import listening_sockets, port_of
from pykraft.spark.pipeline import stream_metrics
from pykraft.spark.pipeline.stream_metrics import OF_REPLICA, PREFIX, STREAM_METRICS, StreamMetrics, metrics_thread
from pykraft.types import Endpoint
from tests.security.credentials import HOSTS, authority, context, properties, write
from tests.tidy.repository import ROOT

QUERY = "a query"


class Clock:
    """Moved by hand."""

    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def source(latest: object, end: object) -> dict[str, Any]:
    """A source's part of a report: offsets are JSON, and "null" where Spark has none."""
    return {"latestOffset": json.dumps(latest), "endOffset": json.dumps(end)}


def live(latest: int, end: int) -> dict[str, Any]:
    return source({"offset": latest}, {"cluster": "c", "offset": end, "began": 0})


def report(batch_id: int, *sources: Mapping[str, Any], rows: int = 5, **changes: Any) -> dict[str, Any]:
    made = {
        "runId": "a run",
        "batchId": batch_id,
        "timestamp": f"2026-11-24T02:00:{batch_id:02d}.000Z",
        "numInputRows": rows,
        "inputRowsPerSecond": 4.5,
        "processedRowsPerSecond": 9.0,
        "durationMs": {"triggerExecution": 550, "latestOffset": 3},
        "sources": sources,
    }
    return made | changes


def scraped(metrics: StreamMetrics) -> dict[str, float]:
    """Value by name without the prefix; of a replica with its name in brackets."""
    found = {}
    for family in text_string_to_metric_families(metrics.render().decode()):
        for sample in family.samples:
            assert sample.labels["query"] == QUERY
            replica = sample.labels.get("replica")
            found[sample.name.removeprefix(PREFIX) + (f"[{replica}]" if replica else "")] = sample.value
    return found


def test_before_the_first_report_only_age_and_restarts_are_known() -> None:
    clock = Clock()
    metrics = StreamMetrics(QUERY, clock_s=clock)
    clock.now_s += 7
    assert scraped(metrics) == {"progress_age_seconds": 7, "restarts_total": 0}


def test_a_report_of_a_live_quorum_is_told() -> None:
    metrics = StreamMetrics(QUERY, clock_s=Clock())
    metrics.note(report(3, live(latest=120, end=100)))
    metrics.note_restarts(2)
    assert scraped(metrics) == {
        "batch_id": 3,
        "latest_offset": 120,
        "reached_offset": 100,
        "lag_records": 20,
        "input_rows_per_second": 4.5,
        "processed_rows_per_second": 9,
        "batch_duration_ms": 550,
        "progress_age_seconds": 0,
        "restarts_total": 2,
    }


def test_each_replica_of_directories_has_its_own_lag() -> None:
    metrics = StreamMetrics(QUERY)
    latest = {"cluster": "c", "replicas": {"n1": {"offset": 9}, "n2": {"offset": 7}, "n3": {"offset": 1}}}
    end = {"cluster": "c", "replicas": {"n1": {"offset": 4, "crc": 1}, "n2": {"offset": 7, "crc": 1}}}
    metrics.note(report(0, source(latest, end)))
    told = scraped(metrics)
    assert {name: value for name, value in told.items() if "[" in name} == {
        "latest_offset[n1]": 9,
        "latest_offset[n2]": 7,
        "latest_offset[n3]": 1,
        "reached_offset[n1]": 4,
        "reached_offset[n2]": 7,
        "lag_records[n1]": 5,
        "lag_records[n2]": 0,
    }


def test_an_idle_report_has_new_offsets_and_rates_but_is_no_micro_batch() -> None:
    metrics = StreamMetrics(QUERY)
    metrics.note(report(3, live(latest=120, end=120)))
    idle = {"inputRowsPerSecond": 0.0, "processedRowsPerSecond": 0.0, "durationMs": {"triggerExecution": 2}}
    metrics.note(report(4, live(latest=125, end=120), rows=0, **idle))
    told = scraped(metrics)
    assert (told["batch_id"], told["batch_duration_ms"]) == (3, 550)
    assert (told["lag_records"], told["input_rows_per_second"], told["processed_rows_per_second"]) == (5, 0, 0)


def test_the_age_is_that_of_the_newest_report_also_if_it_is_noted_again() -> None:
    clock = Clock()
    metrics = StreamMetrics(QUERY, clock_s=clock)
    for seconds, number in ((1, 0), (2, 0), (4, 1), (8, 1)):
        clock.now_s += seconds
        metrics.note(report(number, live(5, 5)))
        assert scraped(metrics)["progress_age_seconds"] == {1: 0, 2: 2, 4: 0, 8: 8}[seconds]
    metrics.note(report(1, live(5, 5), runId="the next run"))
    assert scraped(metrics)["progress_age_seconds"] == 0


@pytest.mark.parametrize(
    "other",
    [
        {},
        {"sources": [{"latestOffset": None, "endOffset": "null"}]},
        {"sources": [source(None, None), source("text", [1]), source({"offset": "x"}, {"replicas": {"n1": 1}})]},
        {"sources": [{"latestOffset": "no JSON"}], "numInputRows": 1, "batchId": None, "inputRowsPerSecond": None},
    ],
)
def test_what_a_report_lacks_or_has_in_another_form_stays_as_it_was(other: dict[str, Any]) -> None:
    metrics = StreamMetrics(QUERY, clock_s=Clock())
    metrics.note(other)
    assert scraped(metrics) == {"progress_age_seconds": 0, "restarts_total": 0}
    metrics.note(report(3, live(latest=12, end=10)))
    before = scraped(metrics)
    metrics.note(other)
    assert scraped(metrics) == before


def test_an_offset_behind_a_log_that_became_shorter_is_no_negative_lag() -> None:
    metrics = StreamMetrics(QUERY)
    metrics.note(report(0, live(latest=3, end=4), inputRowsPerSecond=nan))
    assert scraped(metrics)["lag_records"] == 0


def table() -> str:
    """The table of the page."""
    rows = [("name", "type", "unit", "meaning"), ("---",) * 4]
    for metric in STREAM_METRICS:
        label = "{replica}" if metric.name in OF_REPLICA else ""
        rows.append((f"`{metric.name}{label}`", metric.kind.value, metric.unit, metric.meaning))
    return "".join(f"| {' | '.join(row)} |\n".replace("|  |", "| |") for row in rows)


def test_the_page_lists_every_metric_as_the_code_does(request: pytest.FixtureRequest) -> None:
    path = ROOT / "docs" / "spark-tables.md"
    page = path.read_text()
    head, _, rest = page.partition("<!-- stream metrics -->\n")
    end = "<!-- end stream metrics -->"
    expected = f"{head}<!-- stream metrics -->\n\n{table()}\n{end}{rest.partition(end)[2]}"
    if request.config.getoption("--rewrite"):
        path.write_text(expected)
    assert path.read_text() == expected
    assert f"the prefix `{PREFIX}`" in page


TIMEOUT_S = 10.0


def scrape(port: int) -> bytes:
    with urlopen(f"http://localhost:{port}/metrics", timeout=TIMEOUT_S) as answer:
        body: bytes = answer.read()
    return body


@contextmanager
def served(rendered: list[str]) -> Iterator[int]:
    """The port; ``rendered`` gets the name of the thread that renders."""

    def render() -> bytes:
        rendered.append(threading.current_thread().name)
        return b"one 1.0\n"

    sockets = listening_sockets(Endpoint("localhost", 0))
    with metrics_thread(sockets, render):
        yield port_of(sockets)


def test_scrapes_are_answered_until_the_block_ends() -> None:
    rendered: list[str] = []
    with served(rendered) as port:
        assert [scrape(port) for _ in range(3)] == [b"one 1.0\n"] * 3
    assert rendered == ["metrics"] * 3
    assert "metrics" not in [thread.name for thread in threading.enumerate()]
    with pytest.raises(URLError, match="refused"):
        scrape(port)


def test_renewed_certificates_are_taken_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(stream_metrics, "REFRESH_S", 0.01)
    tls = context(properties(tmp_path), Side.SERVER)
    before = tls.current
    with caplog.at_level("INFO", "pykraft"), metrics_thread([], lambda: b"", tls):
        write(tmp_path / "node.pem", authority().issue("renewed", HOSTS))
        wait_until(lambda: "certificates were read again" in caplog.text, "the renewed certificate is taken up")
    assert tls.current is not before


def test_an_error_in_the_block_ends_the_thread_too() -> None:
    with pytest.raises(KeyboardInterrupt), served([]):
        raise KeyboardInterrupt
    assert "metrics" not in [thread.name for thread in threading.enumerate()]
