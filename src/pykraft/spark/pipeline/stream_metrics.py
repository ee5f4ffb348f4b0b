"""Metrics of a streaming query: how far it is behind the log, how fast it is, and whether it gets on.

The thread that waits for the query notes Spark's reports (after each micro-batch, and every ten seconds without one);
another renders them for Prometheus, so a scrape is answered at once. A value that no report had yet is absent.

Invariant: the values of a scrape were noted together. After the block that serves scrapes nothing listens any more.

Source: Spark's ``StreamingQueryProgress``; PySpark's ``reportLatestOffset``; `pykraft.server.prometheus`.
"""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from threading import Thread
from typing import TYPE_CHECKING, Any, Final

from pykraft.host.metrics import Metric, MetricKind, ours
from pykraft.security.contexts import Side, TlsContext
from pykraft.security.settings import IN_THE_CLEAR, Security
from pykraft.server.binding import listening_sockets, not_bound, port_of
from pykraft.server.prometheus import PrometheusEndpoint, require_package
from pykraft.server.secured import REFRESH_S
from pykraft.types import Endpoint

PREFIX: Final = "pykraft_stream_"
BATCH_ID: Final = ours("batch_id", MetricKind.GAUGE, "", "number of the newest micro-batch with rows")
LATEST_OFFSET: Final = ours("latest_offset", MetricKind.GAUGE, "offset", "end of the source's log at the newest report")
REACHED_OFFSET: Final = ours("reached_offset", MetricKind.GAUGE, "offset", "everything below it is read")
LAG: Final = ours("lag_records", MetricKind.GAUGE, "records", "how far the stream is behind: the difference of the two")
INPUT_RATE: Final = ours(
    "input_rows_per_second", MetricKind.GAUGE, "rows/s", "rows that arrived, since the micro-batch before began"
)
PROCESSED_RATE: Final = ours(
    "processed_rows_per_second", MetricKind.GAUGE, "rows/s", "rows that were processed, while a micro-batch ran"
)
DURATION: Final = ours("batch_duration_ms", MetricKind.GAUGE, "ms", "time that the newest micro-batch with rows took")
AGE: Final = ours(
    "progress_age_seconds",
    MetricKind.GAUGE,
    "s",
    "time since Spark's newest report, or since the start before the first",
)
RESTARTS: Final = ours(
    "restarts_total", MetricKind.COUNTER, "restarts", "how often the query was restarted because a Spark process died"
)
STREAM_METRICS: Final = (
    BATCH_ID,
    LATEST_OFFSET,
    REACHED_OFFSET,
    LAG,
    INPUT_RATE,
    PROCESSED_RATE,
    DURATION,
    AGE,
    RESTARTS,
)
"""All of them, in the order of the documentation."""
OF_REPLICA: Final = frozenset({LATEST_OFFSET.name, REACHED_OFFSET.name, LAG.name})
"""These have a series for each replica; a live quorum is the replica without a name."""


@contextmanager
def metrics_thread(
    sockets: Sequence[socket.socket], render: Callable[[], bytes], tls: TlsContext | None = None
) -> Iterator[None]:
    """Serve on these listening sockets within this block; ``render`` is called in the thread, and must not block.

    Changed files of ``tls`` are taken up as by a node.
    """
    begun: Future[asyncio.AbstractEventLoop] = Future()
    ended = asyncio.Event()

    async def serve() -> None:
        endpoint = PrometheusEndpoint(asyncio.get_running_loop(), render)
        try:
            await endpoint.listen(sockets, tls)
            while not ended.is_set():
                with suppress(TimeoutError):
                    await asyncio.wait_for(ended.wait(), None if tls is None else REFRESH_S)
                if tls is not None:
                    await asyncio.to_thread(tls.take_up)
        finally:
            endpoint.close()

    def run() -> None:
        with asyncio.Runner() as runner:
            begun.set_result(runner.get_loop())
            runner.run(serve())

    # A daemon, so that nothing that may go wrong here keeps the process.
    thread = Thread(target=run, name="metrics", daemon=True)
    thread.start()
    loop = begun.result()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()


@contextmanager
def metrics_at_address(
    at: Endpoint, option: str, render: Callable[[], bytes], security: Security = IN_THE_CLEAR
) -> Iterator[Endpoint]:
    """The same at this address, where port 0 is any free one; gives the address that it is. ``option`` is for errors.

    Errors: ConfigError for an address or a certificate that cannot be used; UsageError without the client library.
    """
    require_package(option)
    tls = TlsContext(security, Side.SERVER) if security.uses_tls else None
    try:
        sockets = listening_sockets(at)
    except OSError as error:
        raise not_bound(option, str(at), error) from error
    with metrics_thread(sockets, render, tls):
        yield Endpoint(at.host, port_of(sockets))


if TYPE_CHECKING:  # an extra: imported when a scrape is answered
    from prometheus_client import Metric as Family


@dataclass(frozen=True, slots=True, kw_only=True)
class _Noted:
    at_s: float
    report: tuple[object, ...] | None = None
    values: Mapping[tuple[str, str], float] = field(default_factory=dict)
    restarts: int = 0


class StreamMetrics:
    """The metrics of the query with this name."""

    def __init__(self, query: str, *, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._query = query
        self._clock_s = clock_s
        # Replaced as a whole, so that a scrape in another thread needs no lock.
        self._noted = _Noted(at_s=clock_s())

    def note(self, progress: Mapping[str, Any]) -> None:
        """Note a report of Spark's; the same one again changes nothing."""
        report = (progress.get("runId"), progress.get("batchId"), progress.get("timestamp"))
        if report != self._noted.report:
            values = {**self._noted.values, **_values(progress)}
            self._noted = replace(self._noted, at_s=self._clock_s(), report=report, values=values)

    def note_restarts(self, restarts: int) -> None:
        """Note how often the query was restarted so far."""
        self._noted = replace(self._noted, restarts=restarts)

    def render(self) -> bytes:
        from prometheus_client import generate_latest

        return generate_latest(self)

    def collect(self) -> Iterator[Family]:
        """One family for each metric that is present, as the client library asks for them."""
        noted = self._noted
        values = {
            **noted.values,
            (AGE.name, ""): max(0.0, self._clock_s() - noted.at_s),
            (RESTARTS.name, ""): float(noted.restarts),
        }
        for metric in STREAM_METRICS:
            series = {replica: value for (name, replica), value in values.items() if name == metric.name}
            if series:
                yield self._family(metric, series)

    def _family(self, metric: Metric, series: Mapping[str, float]) -> Family:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        text = f"{metric.meaning} ({metric.unit})" if metric.unit else metric.meaning
        labels = ["query", "replica"] if metric.name in OF_REPLICA else ["query"]
        kind = CounterMetricFamily if metric.kind is MetricKind.COUNTER else GaugeMetricFamily
        family = kind(PREFIX + metric.name, text, labels=labels)
        for replica, value in sorted(series.items()):
            family.add_metric([self._query, replica][: len(labels)], value)
        return family


def _values(progress: Mapping[str, Any]) -> dict[tuple[str, str], float]:
    found: dict[str, object] = {
        INPUT_RATE.name: progress.get("inputRowsPerSecond"),
        PROCESSED_RATE.name: progress.get("processedRowsPerSecond"),
    }
    if progress.get("numInputRows"):
        # An idle report has the number of the next micro-batch, and the time that it took to find nothing.
        found[BATCH_ID.name] = progress.get("batchId")
        found[DURATION.name] = progress.get("durationMs", {}).get("triggerExecution")
    values = {(name, ""): float(value) for name, value in found.items() if isinstance(value, int | float)}
    for source in progress.get("sources", ()):
        latest, reached = (_offsets(source.get(name)) for name in ("latestOffset", "endOffset"))
        values |= {(LATEST_OFFSET.name, replica): float(offset) for replica, offset in latest.items()}
        values |= {(REACHED_OFFSET.name, replica): float(offset) for replica, offset in reached.items()}
        lag = {replica: max(0, latest[replica] - reached[replica]) for replica in latest.keys() & reached.keys()}
        values |= {(LAG.name, replica): float(records) for replica, records in lag.items()}
    return values


def _offsets(text: str | None) -> dict[str, int]:
    """The offsets of the source's replicas, from its offset in JSON; none if it has another form."""
    try:
        told = json.loads(text or "null")
        positions = told.get("replicas", {"": told})
        return {name: int(position["offset"]) for name, position in positions.items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}
