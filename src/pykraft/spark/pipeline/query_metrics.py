"""Metrics of all streaming queries of a session, by a listener: how far each is behind its log, and whether it runs.

Spark calls the listener in a thread of its own, and a scrape comes in another. Invariant: a query is there from its
start to its end, under its name, or its id if it has none; a scrape is answered from what was noted last.

Source: Spark's ``StreamingQueryListener``; `pykraft.spark.pipeline.stream_metrics`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from pykraft.security.settings import Security
from pykraft.spark.pipeline.stream_metrics import StreamMetrics, metrics_at_address
from pykraft.types import Endpoint

if TYPE_CHECKING:  # an extra: imported when a scrape is answered
    from prometheus_client import Metric as Family


class QueryMetrics(StreamingQueryListener):
    """For ``spark.streams.addListener``; `render` is what Prometheus reads."""

    def __init__(self) -> None:
        self._queries: dict[str, StreamMetrics] = {}

    def onQueryStarted(self, event: Any) -> None:  # noqa: ANN401, N802 - Spark's event and name, as below
        """See `StreamingQueryListener`."""
        self._queries[str(event.runId)] = StreamMetrics(event.name or str(event.id))

    def onQueryProgress(self, event: Any) -> None:  # noqa: ANN401, N802
        """See `StreamingQueryListener`."""
        progress = event.progress
        if (metrics := self._queries.get(str(progress.runId))) is not None:
            metrics.note(progress)

    def onQueryIdle(self, event: Any) -> None:  # noqa: ANN401, N802
        """See `StreamingQueryListener`: nothing is new, and the query runs."""
        if (metrics := self._queries.get(str(event.runId))) is not None:
            metrics.note({"runId": str(event.runId), "timestamp": event.timestamp})

    def onQueryTerminated(self, event: Any) -> None:  # noqa: ANN401, N802
        """See `StreamingQueryListener`."""
        self._queries.pop(str(event.runId), None)

    def render(self) -> bytes:
        """In Prometheus's text format."""
        from prometheus_client import generate_latest

        return generate_latest(self)

    def collect(self) -> Iterator[Family]:
        """The families of all queries together, as the client library asks for them."""
        families: dict[str, Family] = {}
        for metrics in list(self._queries.values()):
            for family in metrics.collect():
                if family.name in families:
                    families[family.name].samples += family.samples
                else:
                    families[family.name] = family
        yield from families.values()


@contextmanager
def served_metrics(
    spark: SparkSession, port: int, host: str = "localhost", *, properties: Mapping[str, str] | None = None
) -> Iterator[Endpoint]:
    """Answer ``GET /metrics`` for the queries that start within this block; port 0 is any free one.

    ``properties`` protect it, as a node's protect its metrics.

    Errors: ConfigError for an address or property that cannot be used; UsageError without the extra ``metrics``.
    """
    listener, security = QueryMetrics(), Security.of_metrics(properties or {})
    with metrics_at_address(Endpoint(host, port), "port", listener.render, security) as bound:
        spark.streams.addListener(listener)
        try:
            yield bound
        finally:
            spark.streams.removeListener(listener)
