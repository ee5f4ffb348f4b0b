"""Queries of a session as Prometheus sees them, from Spark's own events."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families
from pyspark.sql import SparkSession

from pykraft.errors import ConfigError
from pykraft.spark.pipeline.query_metrics import QueryMetrics, served_metrics
from tests.spark.logs import three_batches, write_segment
from tests.spark.pipeline.test_stream_metrics import live, report

pytestmark = pytest.mark.spark


class Progress(dict[str, Any]):
    """As Spark's, which has items and attributes."""

    @property
    def runId(self) -> object:  # noqa: N802 - Spark's name
        """Its run."""
        return self["runId"]


def test_each_query_has_its_series_until_it_ends() -> None:
    metrics = QueryMetrics()
    for run, name in (("r1", "one"), ("r2", None)):
        metrics.onQueryStarted(SimpleNamespace(id=f"id of {run}", runId=run, name=name))
    metrics.onQueryProgress(SimpleNamespace(progress=Progress(report(3, live(9, 4), runId="r1"))))
    metrics.onQueryIdle(SimpleNamespace(runId="r1", timestamp="2026-11-24T02:01:00.000Z"))
    # Events that come after the end, or of queries from before the listener, change nothing.
    metrics.onQueryIdle(SimpleNamespace(runId="r0", timestamp="2026-11-24T02:01:00.000Z"))
    metrics.onQueryProgress(SimpleNamespace(progress=Progress(report(3, live(9, 4), runId="r0"))))
    families = {family.name: family for family in text_string_to_metric_families(metrics.render().decode())}
    found = {sample.labels["query"]: sample.value for sample in families["pykraft_stream_lag_records"].samples}
    assert found == {"one": 5}
    ages = families["pykraft_stream_progress_age_seconds"].samples
    assert {sample.labels["query"] for sample in ages} == {"one", "id of r2"}
    for run in ("r1", "r2", "r2"):
        metrics.onQueryTerminated(SimpleNamespace(runId=run))
    assert metrics.render() == b""


def test_a_query_of_spark_is_scraped(spark: SparkSession, tmp_path: Path) -> None:
    path = write_segment(tmp_path / "n1" / "p-0", b"".join(three_batches())).parent
    with served_metrics(spark, 0) as address:
        stream = spark.readStream.format("pykraft").load(str(path)).select("offset").writeStream
        query = stream.queryName("scraped").format("noop").start()
        try:
            query.processAllAvailable()
            url = f"http://{address}/metrics"
            while b"reached_offset" not in (text := urlopen(url, timeout=10).read()):
                assert query.isActive
            assert b'pykraft_stream_reached_offset{query="scraped",replica="n1"} 6.0' in text
        finally:
            query.stop()
        with pytest.raises(ConfigError, match="port"), served_metrics(spark, address.port):
            pass
